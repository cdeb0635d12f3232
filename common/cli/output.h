// std::cout and std::cerr, whose text is made printable on its way, whoever writes it.
#pragma once

#include <cstddef>

namespace coldframe {

// From now on both write as printable() has it. Once is enough; text of C's stdio does not come by.
void make_output_printable();

// Why std::cout could not be written since then, as errno; 0: all that was flushed has arrived.
int output_error();

// Writes all, waiting where a pipe, a terminal or a FIFO is full; false with errno.
bool write_all(int descriptor, const char* bytes, std::size_t size);

}  // namespace coldframe
