// LibTorch's autograd with sizes instead of numbers: what operators allocate, what they save for
// the backward pass, and when all of it is freed, so that a peak is known before anything runs.
//
// An operator saves what PyTorch 2.11's derivatives.yaml names in its backward formula;
// when that goes is as in torch/csrc/autograd/engine.cpp: nodes run from the youngest to the
// oldest, a node's gradients live until it returns and what it saved until right after, and a
// second gradient is added in place unless somebody else holds the first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "train_temporal/tune/recompute/recipe.h"

namespace coldframe::tune {

// To read and write one value takes as long as so many operations of a matrix product.
constexpr double kWorkPerValue = 16;
// So many for each time that one weight is read, written or cast: no cache holds it from one chunk
// of frames to the next.
constexpr double kWorkPerWeight = 40;

// Counts live bytes, rounded up as the device's allocator does.
struct Ledger {
  std::uint64_t live = 0, peak = 0;
  std::uint64_t granule = 1;

  void take(std::uint64_t bytes);
};

class Memory;
using MemoryRecipe = Recipe<std::shared_ptr<Memory>>;

// A tensor's memory; tensors that share it, share it.
class Memory {
 public:
  Memory(Ledger& ledger, std::uint64_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::shared_ptr<MemoryRecipe> recipe{};  // nodes that save what lies here keep this instead

 private:
  Ledger& ledger_;
  std::uint64_t bytes_;
};

struct Node;

// A tensor's outline.
struct Outline {
  std::uint64_t elements = 0;
  std::uint64_t width = 4;         // bytes of an element
  std::shared_ptr<Memory> memory;  // nothing: it is not counted, such as a weight
  std::shared_ptr<Node> node;      // nothing: it needs no gradient
  std::size_t slot = 0;            // which of the node's results it is
  bool by_heads = false;           // it lies head by head, not token by token

  std::uint64_t bytes() const { return elements * width; }
  bool is_leaf() const;  // no operator with a gradient gave it
};

// An operator does this beside reading its inputs.
struct Operator {
  std::vector<Outline> inputs;
  std::uint64_t elements = 0;  // of the result
  std::uint64_t width = 4;
  bool is_view = false;          // the result shares the first input's memory
  std::vector<Outline> saved{};  // beside these the bytes:
  std::uint64_t saved_bytes = 0;
  bool saves_result = false;
  std::uint64_t forward_temporary = 0;   // while it runs forward, beside result and saved bytes
  std::uint64_t backward_temporary = 0;  // while it runs backward, beside the inputs' gradients
  bool passes_gradient = false;          // gradients of the result's type are the result's own
  bool turns_gradient = false;           // likewise, but changed in place
  bool second_gradient_first = false;    // then the first of `saved` goes, before the first comes
  double work = 0;                       // of the forward pass, in floating-point operations
};

class Tape {
 public:
  // `half`: matrix products in 2 bytes, as autocast runs them. `graph`: operators save.
  Tape(bool graph, bool half, std::uint64_t granule) : half_(half), graph_(graph) {
    ledger_.granule = granule;
  }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  bool half() const { return half_; }
  const Ledger& ledger() const { return ledger_; }
  double forward_work() const { return forward_work_; }
  double backward_work() const { return backward_work_; }

  Outline tensor(std::uint64_t elements, std::uint64_t width);
  Outline weight(std::uint64_t elements, bool trained);  // its memory is counted elsewhere
  Outline with_gradient(Outline leaf);
  Outline run(const Operator& op);
  // Several results of one memory, whose gradients the backward pass puts side by side anew.
  // They take these shares of x.
  std::vector<Outline> split(const Outline& x, const std::vector<std::int64_t>& shares);
  // Gives x in that width, by autocast or .to(): itself where it has that already.
  Outline cast(const Outline& x, std::uint64_t width);

  // What `result` is in may be dropped: `compute(values)` is a tensor like it, of the values of
  // `inputs`.
  using Compute = std::function<Outline(const std::vector<Outline>&)>;
  void may_drop(const Outline& result, const std::vector<Outline>& inputs, const Compute& compute);

  // Takes `gradient` through the graph to the leaves, whose gradients all live until the end. What
  // the graph saved is freed on the way.
  void backward(const Outline& result, const Outline& gradient);
  void restart_peak() { ledger_.peak = ledger_.live; }

 private:
  using Gradients = std::vector<Outline>;

  std::shared_ptr<Node> node_for(const std::vector<Outline>& inputs);
  Gradients gradients_of(Node& node, const Gradients& incoming);
  void add(Outline& sum, Outline gradient);

  Ledger ledger_;
  bool half_, graph_;
  std::uint64_t age_ = 0;
  double forward_work_ = 0, backward_work_ = 0;
};

}  // namespace coldframe::tune
