// The parts of LibTorch that Coldframe uses beyond the documented C++ frontend. No release promises
// to keep these headers: look here first if a new one does not compile. `tests/run` tests the
// oldest supported release, and with COLDFRAME_TORCH_VERSION another one.
//
// - torch/csrc/autograd/{function,engine,saved_variable,saved_variable_hooks}.h: nodes of our own,
//   and the engine, which says how what nodes save is kept (train_temporal/fit/tune/recompute.cpp)
// - torch/csrc/inductor/aoti_package: compiled modules (extract/vit/compiled)
// - c10/core/CPUAllocator.h, c10/core/impl/alloc_cpu.h: counted memory (memory.cpp)
// - c10/core/impl/VirtualGuardImpl.h: a GPU's streams and events without linking CUDA (device.cpp,
//   to_device.cpp, extract/pipeline, extract/vit/gpu)
// - c10/core/impl/LocalDispatchKeySet.h: operators without autocast (models/operations.cpp)
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace coldframe {

#define COLDFRAME_TORCH_SINCE_2_13 (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13)

// Since 2.13 a node of autograd's graph counts its users itself.
#if COLDFRAME_TORCH_SINCE_2_13
using NodePtr = c10::intrusive_ptr<torch::autograd::Node>;

template <class Node, class... Arguments>
c10::intrusive_ptr<Node> make_node(Arguments&&... arguments) {
  return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}
#else
using NodePtr = std::shared_ptr<torch::autograd::Node>;

// deleteNode() takes a long chain of nodes apart without recursion.
template <class Node, class... Arguments>
std::shared_ptr<Node> make_node(Arguments&&... arguments) {
  return {new Node(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode};
}
#endif

// Since 2.13 oneDNN computes LSTMs over packed frames on the CPU: it keeps as much again of each
// frame for the backward pass, and has no float16 for them on most processors.
inline constexpr bool kLstmByOneDnn = COLDFRAME_TORCH_SINCE_2_13;

}  // namespace coldframe
