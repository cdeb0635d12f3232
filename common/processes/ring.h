// Data around the ring of ranks: a chain of sums from rank 0 to the last, whose result goes on
// around to all. Both move in pieces at the same time.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "common/system/socket.h"

namespace coldframe {

class PeerWatch;

class Ring {
 public:
  Ring(int rank, int size, Socket next, Socket previous, PeerWatch& watch)
      : rank_(rank),
        size_(size),
        next_(std::move(next)),
        previous_(std::move(previous)),
        watch_(watch) {}

  // Rank 0 begins with `running`; every other rank receives what the one before has and calls
  // add(from, to) for the bytes of `running` that are new, in order, always for whole units of
  // `unit` bytes. What the last rank ends with is then in everyone's `result`.
  using Add = std::function<void(std::size_t from, std::size_t to)>;
  void chain(std::span<std::byte> running, std::span<std::byte> result, std::size_t unit,
             const Add& add);
  // Rank 0's bytes, to all.
  void broadcast(std::span<std::byte> bytes);

 private:
  // Bytes on their way to the next rank, and from the one before.
  struct Flow {
    std::span<std::byte> first, second;
    std::size_t done = 0;

    std::size_t total() const { return first.size() + second.size(); }
    std::span<std::byte> rest(std::size_t until) const;
  };
  // Moves `in` and, as far as ready() allows, `out`. Calls arrived() after each piece.
  void move(Flow& in, Flow& out, const std::function<std::size_t()>& ready,
            const std::function<void()>& arrived);
  void wait(bool receiving, bool sending) const;
  [[noreturn]] void fail(int other) const;

  const int rank_, size_;
  Socket next_, previous_;
  PeerWatch& watch_;
};

}  // namespace coldframe
