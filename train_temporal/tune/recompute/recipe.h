// How a value that a graph has dropped comes back on the way back.
#pragma once

#include <functional>
#include <utility>

namespace coldframe::tune {

// Held: torch::Tensor, or a tensor's outline. The value is computed when it is first wanted, and
// stays as long as nodes of the graph wait for it: of a product that several need, once.
template <class Held>
class Recipe {
 public:
  explicit Recipe(std::function<Held()> compute) : compute_(std::move(compute)) {}

  Held value() {
    if (has_) return held_;
    Held found = compute_();
    if (waiting_ > 0) held_ = found, has_ = true;
    return found;
  }
  // A node waits for the value until it has run, or is dropped.
  void wait() { ++waiting_; }
  void give_up() {
    if (--waiting_ > 0) return;
    held_ = Held();
    has_ = false;
  }

 private:
  std::function<Held()> compute_;
  Held held_{};
  bool has_ = false;
  int waiting_ = 0;
};

}  // namespace coldframe::tune
