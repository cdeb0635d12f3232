// std::cout and std::cerr, whose text is made printable on its way, whoever writes it.
#pragma once

namespace coldframe {

// From now on both write as printable() has it. Once is enough; text of C's stdio does not come by.
void make_output_printable();

}  // namespace coldframe
