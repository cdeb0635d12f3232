// Ctrl-C, SIGTERM and SIGHUP (the terminal is gone): the first asks the job to finish its current
// unit, the second ends it at once, except that a SIGTERM or SIGHUP within five seconds of the
// first is the same one: SLURM sends two. A SIGHUP that is ignored from the start, by nohup, stays
// so.
#pragma once

namespace coldframe {

void install_stop_handlers();

// Where no handlers stand and this is the first process of a container, in which a signal that is
// not handled does nothing: Ctrl-C and the others end it at once. run_main() does so.
void leave_at_stop_signals_if_first();

// Between the two a stop signal waits: `coldframe` holds it until the program that it becomes has
// its handlers. run_main() lets go.
void hold_stop_signals();
void release_stop_signals();

bool stop_requested();      // safe from any thread
void request_stop();        // what the handler does; also for tests
void clear_stop_request();  // for tests

}  // namespace coldframe
