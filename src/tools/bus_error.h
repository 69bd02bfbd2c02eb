// What the process says when a mapped file cannot be read: one line instead of a bare "Bus error". Main thread, once.
#pragma once

namespace dspark {

// From now on, a read of a mapped page that the file no longer has (it was truncated, or its disk failed) ends the
// process with ExitCode::kBadFile and a line on stderr, whichever thread read.
void explain_bus_errors();

}  // namespace dspark
