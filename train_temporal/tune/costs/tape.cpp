#include "train_temporal/tune/costs/tape.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace coldframe::tune {

void Ledger::take(std::uint64_t bytes) {
  live += bytes;
  peak = std::max(peak, live);
}

Memory::Memory(Ledger& ledger, std::uint64_t bytes)
    : ledger_(ledger), bytes_((bytes + ledger.granule - 1) / ledger.granule * ledger.granule) {
  ledger_.take(bytes_);
}
Memory::~Memory() {
  ledger_.live -= bytes_;
}

// What a node keeps of a tensor.
class Saved {
 public:
  explicit Saved(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {
    if (memory_ && memory_->recipe) use(memory_->recipe);
  }
  ~Saved() { drop(); }
  Saved(Saved&& other) noexcept
      : memory_(std::move(other.memory_)), recipe_(std::move(other.recipe_)) {}
  Saved& operator=(Saved&&) = delete;

  bool is_in(const std::shared_ptr<Memory>& memory) const { return memory_ == memory; }
  void use(const std::shared_ptr<MemoryRecipe>& recipe) {
    recipe_ = recipe;
    recipe_->wait();
    memory_.reset();
  }
  void drop() {
    if (recipe_) recipe_->give_up();
    recipe_.reset();
    memory_.reset();
  }
  std::shared_ptr<Memory> value() const { return recipe_ ? recipe_->value() : memory_; }

 private:
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<MemoryRecipe> recipe_;
};

// An operator in the graph, or a leaf.
struct Node {
  struct Edge {
    std::shared_ptr<Node> node;  // nothing: no gradient is needed
    std::size_t slot = 0;
    std::uint64_t elements = 0, width = 4;
  };
  std::uint64_t age = 0;
  std::size_t results = 1;
  std::vector<Edge> next;
  std::vector<Saved> saved;
  std::uint64_t temporary = 0;
  bool passes_gradient = false, turns_gradient = false, second_gradient_first = false;
  bool is_leaf = false;
  bool found = false;              // on the way back
  std::vector<Outline> gradients;  // of its results, added up so far
  double work = 0;                 // for each input's gradient; of a weight, for its own
};

bool Outline::is_leaf() const {
  return !node || node->is_leaf;
}

Outline Tape::tensor(std::uint64_t elements, std::uint64_t width) {
  return {elements, width, std::make_shared<Memory>(ledger_, elements * width), nullptr, 0};
}

Outline Tape::weight(std::uint64_t elements, bool trained) {
  Outline outline{elements, 4, nullptr, nullptr, 0};
  if (!trained) return outline;
  outline = with_gradient(outline);
  if (outline.node)  // sum and gradient are read, and the sum is written
    outline.node->work = 3 * kWorkPerWeight * static_cast<double>(elements);
  return outline;
}

Outline Tape::with_gradient(Outline leaf) {
  if (!graph_) return leaf;
  leaf.node = std::make_shared<Node>();
  leaf.node->is_leaf = true;
  return leaf;
}

std::shared_ptr<Node> Tape::node_for(const std::vector<Outline>& inputs) {
  const bool needed =
      std::ranges::any_of(inputs, [](const Outline& input) { return input.node != nullptr; });
  if (!graph_ || !needed) return nullptr;
  auto node = std::make_shared<Node>();
  node->age = ++age_;
  node->next.reserve(inputs.size());
  for (const Outline& input : inputs)
    node->next.push_back({input.node, input.slot, input.elements, input.width});
  return node;
}

Outline Tape::run(const Operator& op) {
  Outline result;
  result.elements = op.elements;
  result.width = op.width;
  result.memory =
      op.is_view ? op.inputs[0].memory : std::make_shared<Memory>(ledger_, result.bytes());
  auto extra = std::make_shared<Memory>(ledger_, op.saved_bytes);
  { const Memory temporary(ledger_, op.forward_temporary); }
  forward_work_ += op.work;
  result.node = node_for(op.inputs);
  if (!result.node) return result;
  result.node->saved.reserve(op.saved.size() + 2);
  for (const Outline& each : op.saved) result.node->saved.emplace_back(each.memory);
  if (op.saves_result) result.node->saved.emplace_back(result.memory);
  result.node->saved.emplace_back(std::move(extra));
  result.node->temporary = op.backward_temporary;
  result.node->passes_gradient = op.passes_gradient;
  result.node->turns_gradient = op.turns_gradient;
  result.node->second_gradient_first = op.second_gradient_first;
  result.node->work = op.work;
  return result;
}

std::vector<Outline> Tape::split(const Outline& x, const std::vector<std::int64_t>& shares) {
  const std::shared_ptr<Node> node = node_for({x});
  if (node) node->results = shares.size();
  const std::uint64_t share =
      x.elements / static_cast<std::uint64_t>(std::accumulate(shares.begin(), shares.end(), 0L));
  std::vector<Outline> found;
  for (std::size_t i = 0; i < shares.size(); ++i)
    found.push_back({share * static_cast<std::uint64_t>(shares[i]), x.width, x.memory, node, i});
  return found;
}

Outline Tape::cast(const Outline& x, std::uint64_t width) {
  if (x.width == width) return x;
  Operator op{{x}, x.elements, width};
  op.work = (x.memory ? kWorkPerValue : kWorkPerWeight) * static_cast<double>(x.elements);
  return run(op);
}

void Tape::may_drop(const Outline& result, const std::vector<Outline>& inputs,
                    const Compute& compute) {
  std::vector<Outline> kept = inputs;
  for (Outline& each : kept) each.node = nullptr;
  std::vector<std::shared_ptr<MemoryRecipe>> recipes;
  for (Outline& each : kept) {
    recipes.push_back(each.memory ? each.memory->recipe : nullptr);
    if (recipes.back()) each.memory = nullptr;
  }
  const auto recipe = std::make_shared<MemoryRecipe>([this, kept, recipes, compute] {
    std::vector<Outline> values = kept;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (recipes[i]) values[i].memory = recipes[i]->value();
    const bool graph = std::exchange(graph_, false);
    const double work = forward_work_;
    const Outline found = compute(values);
    backward_work_ += forward_work_ - work;
    forward_work_ = work;
    graph_ = graph;
    return found.memory;
  });
  if (result.node)
    for (Saved& each : result.node->saved)
      if (each.is_in(result.memory)) each.use(recipe);
  result.memory->recipe = recipe;
}

Tape::Gradients Tape::gradients_of(Node& node, const Gradients& incoming) {
  Gradients found(node.next.size());
  const auto find = [&](std::size_t i) {
    const Node::Edge& edge = node.next[i];
    const Outline& given = incoming[0];
    const bool same = given.width == edge.width && given.elements == edge.elements;
    const bool turns = same && node.turns_gradient && given.memory.use_count() == 1;
    const bool passes = same && node.passes_gradient;
    found[i] = passes || turns ? given : tensor(edge.elements, edge.width);
    if (!passes) backward_work_ += node.work;
  };
  const Memory temporary(ledger_, node.temporary);
  const bool second_first = node.second_gradient_first && node.next[1].node;
  if (second_first) {
    const std::shared_ptr<Memory> value = node.saved.front().value();
    find(1);
  }
  if (second_first) node.saved.front().drop();
  std::vector<std::shared_ptr<Memory>> values;
  for (const Saved& each : node.saved) values.push_back(each.value());
  for (std::size_t i = 0; i < node.next.size(); ++i)
    if (node.next[i].node && !(second_first && i == 1)) find(i);
  return found;
}

void Tape::add(Outline& sum, Outline gradient) {
  if (!sum.memory) {
    sum = std::move(gradient);
    return;
  }
  if (sum.memory.use_count() == 1) return;  // in place
  sum = tensor(sum.elements, sum.width);
}

// The nodes that lead to this one, itself included.
std::vector<Node*> nodes_before(Node* last) {
  std::vector<Node*> found{last};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const Node::Edge& edge : found[i]->next)
      if (edge.node && !std::exchange(edge.node->found, true)) found.push_back(edge.node.get());
  return found;
}

void Tape::backward(const Outline& result, const Outline& gradient) {
  std::vector<Node*> nodes = nodes_before(result.node.get());
  std::erase_if(nodes, [](const Node* node) { return node->is_leaf; });
  // All that give a node gradients are younger.
  std::ranges::sort(nodes, std::greater(), &Node::age);
  result.node->gradients = {gradient};
  for (Node* node : nodes) {
    Gradients found;
    {
      const Gradients incoming = std::move(node->gradients);
      found = gradients_of(*node, incoming);
    }
    node->saved.clear();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Node::Edge& edge = node->next[i];
      if (!edge.node) continue;
      if (edge.node->is_leaf) backward_work_ += edge.node->work;
      edge.node->gradients.resize(edge.node->results);
      add(edge.node->gradients[edge.slot], std::move(found[i]));
    }
  }
}

}  // namespace coldframe::tune
