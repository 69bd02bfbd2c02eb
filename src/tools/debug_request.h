// The request of `dspark debug`: a prompt of ours or of the user's, or what a client has sent. Main thread.
#pragma once

#include "base/settings.h"
#include "engine/engine.h"

namespace dspark {

// --request FILE, else --prompt, else a prompt of ours, repeated to --prompt-len tokens. One choice; 64 tokens of
// answer at most and temperature 0, unless flags or the client say otherwise.
Result<Request> debug_request(const Settings& settings, Engine& engine);

}  // namespace dspark
