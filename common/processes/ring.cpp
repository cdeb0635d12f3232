#include "common/processes/ring.h"

#include <poll.h>

#include <algorithm>

#include "common/cli/error.h"
#include "common/processes/peer_watch.h"
#include "common/text/text.h"

namespace coldframe {

// What has not been moved of the part that `done` lies in, up to `until`.
std::span<std::byte> Ring::Flow::rest(std::size_t until) const {
  if (done < first.size()) return first.subspan(done, std::min(until, first.size()) - done);
  return second.subspan(done - first.size(), until - done);
}

void Ring::fail(int other) const {
  throw SystemError(
      concat(watch_.failure(concat("rank ", other, " has ended or lost its connection")),
             "; this job cannot go on without it: start it again, with --resume, to continue"));
}

void Ring::wait(bool receiving, bool sending) const {
  pollfd entries[] = {{receiving ? previous_.descriptor() : -1, POLLIN, 0},
                      {sending ? next_.descriptor() : -1, POLLOUT, 0}};
  constexpr int kLookMilliseconds = 200;
  ::poll(entries, 2, kLookMilliseconds);
  if (watch_.failed()) fail((rank_ + size_ - 1) % size_);
}

void Ring::move(Flow& in, Flow& out, const std::function<std::size_t()>& ready,
                const std::function<void()>& arrived) {
  while (in.done < in.total() || out.done < out.total()) {
    std::ptrdiff_t received = 0, sent = 0;
    if (in.done < in.total()) {
      received = previous_.receive_some(in.rest(in.total()));
      if (received < 0) fail((rank_ + size_ - 1) % size_);
      in.done += static_cast<std::size_t>(received);
      if (received > 0) arrived();
    }
    const std::size_t until = ready();
    if (out.done < until) {
      sent = next_.send_some(out.rest(until));
      if (sent < 0) fail((rank_ + 1) % size_);
      out.done += static_cast<std::size_t>(sent);
    }
    if (received == 0 && sent == 0) wait(in.done < in.total(), out.done < until);
  }
}

void Ring::chain(std::span<std::byte> running, std::span<std::byte> result, std::size_t unit,
                 const Add& add) {
  const bool first = rank_ == 0, last = rank_ == size_ - 1;
  const bool forwards = !last && rank_ + 1 != size_ - 1;  // the result, which the last rank has
  Flow in{first ? result : running, first || last ? std::span<std::byte>() : result};
  Flow out{running, forwards ? result : std::span<std::byte>()};
  std::size_t added = first ? running.size() : 0;
  const auto arrived = [&] {
    if (first) return;
    const std::size_t whole = std::min(in.done, running.size()) / unit * unit;
    if (whole > added) add(added, whole);
    added = whole;
  };
  const auto ready = [&] {
    if (added < running.size() || !forwards) return added;
    return added + in.done - (first ? 0 : running.size());
  };
  move(in, out, ready, arrived);
  if (last) std::copy(running.begin(), running.end(), result.begin());
}

void Ring::broadcast(std::span<std::byte> bytes) {
  Flow in{rank_ == 0 ? std::span<std::byte>() : bytes, {}};
  Flow out{rank_ == size_ - 1 ? std::span<std::byte>() : bytes, {}};
  const auto ready = [&] { return rank_ == 0 ? bytes.size() : std::min(in.done, out.total()); };
  move(in, out, ready, [] {});
}

}  // namespace coldframe
