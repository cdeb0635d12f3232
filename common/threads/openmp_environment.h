// What OpenMP's library reads from the environment when it is loaded, for the programs that a
// process becomes.
#pragma once

namespace coldframe {

// Threads of a team wait asleep (OMP_WAIT_POLICY) unless somebody said otherwise: those that spin
// take the processor from decoders and from other programs, which they then wait for. A team is as
// large as it was asked to be (OMP_DYNAMIC): oneDNN leaves out what missing threads would have
// computed.
void prepare_openmp_environment();

}  // namespace coldframe
