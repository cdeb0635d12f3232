// Ctrl-C and SIGTERM: the first asks the job to finish its current unit, the second ends it at
// once.
#pragma once

namespace coldframe {

void install_stop_handlers();
bool stop_requested();      // safe from any thread
void request_stop();        // what the handler does; also for tests
void clear_stop_request();  // for tests

}  // namespace coldframe
