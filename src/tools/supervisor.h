// What systemd hears of this process, by its own protocol (sd_notify(3)). Any thread.
#pragma once

#include <string_view>

namespace dspark {

// Sends "READY=1", "WATCHDOG=1" or "STOPPING=1" to the socket in NOTIFY_SOCKET; without one, nothing.
void tell_supervisor(std::string_view state);

}  // namespace dspark
