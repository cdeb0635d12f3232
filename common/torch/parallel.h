// at::parallel_for, sure to be parallel: compiled without OpenMP, LibTorch's header turns it into a
// plain loop without a word. Sources that include this are named in coldframe_parallel_sources().
#pragma once

#include <ATen/Parallel.h>

#ifndef INTRA_OP_PARALLEL
#error "at::parallel_for is serial here; name this source in coldframe_parallel_sources()"
#endif
