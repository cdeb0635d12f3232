// The machine's memory, or this program's share of it, is at its end: the program says so once and
// ends with the exit code of a fatal error, wherever that happens.
//
// Where an exception can still tell it, it does (std::bad_alloc). But there are places that cannot
// let one through (destructors, threads of libraries, main's own beginning and end), and libraries
// that use a null pointer as if there were memory behind it.
#pragma once

namespace coldframe {

// From now on std::terminate(), abort(), exit() and a fault end the program with the message when
// memory is at its end. In all other cases they do what they did, but for an exit() before
// expect_exit(), which says that a library gave up and ends with the code of a fatal error, too.
// May be the first thing that a program does.
void watch_for_end_of_memory();

// Lays some memory aside, which is given back when the first allocation fails, so that what is
// unwound then has some.
void reserve_memory_for_the_end();

// Call it where std::bad_alloc was caught and work goes on: later faults are not for want of
// memory.
void memory_recovered();

// The program has come to its own end: from now on exit() is not a library that gives up.
void expect_exit();

// run_main() leaves at once when the program is done: what libraries have registered for its end
// would fail. May be called from any thread.
void leave_without_destructors();

// Whether run_main() leaves so. It does, too, where memory has ended.
bool leaves_without_destructors();

// True when operator new has failed, not for one who asked by std::nothrow, and memory_recovered()
// has not been called since.
bool memory_has_ended();

// Notes that an error has been printed. Returns whether one had been before.
bool note_error();

// The message on stderr, unless an error stands there already. Allocates nothing.
void say_out_of_memory();

}  // namespace coldframe
