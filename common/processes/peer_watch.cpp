#include "common/processes/peer_watch.h"

#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe {
namespace {

using Clock = Deadline::clock;

enum Message : char { kAlive = 'a', kLeaving = 'l', kFailing = 'f' };
constexpr std::size_t kMessageHeader = 1 + sizeof(std::uint32_t);  // kind, length of the text
constexpr std::uint32_t kLongestText = 1 << 16;

// How long the main thread has, once a failure is known, to report it itself.
constexpr std::chrono::seconds kGrace{8};
constexpr std::chrono::milliseconds kNewsWithin{3000};

}  // namespace

PeerWatch::PeerWatch(int rank, std::vector<Socket> control, std::vector<std::string> names,
                     std::chrono::seconds beat, std::chrono::seconds silence)
    : rank_(rank),
      own_name_(names[static_cast<std::size_t>(rank)]),
      beat_(beat),
      silence_(silence) {
  for (std::size_t i = 0; i < control.size(); ++i) {
    const std::size_t other = rank == 0 ? i + 1 : 0;
    peers_.push_back({std::move(control[i]), names[other], "", Clock::now(), false});
  }
  thread_ = start_thread([this] { run(); });
}

PeerWatch::~PeerWatch() {
  if (!left_ && !failed_) tell("it ended before the job was done");
  ending_ = true;
  thread_.join();
}

void PeerWatch::leave() {
  if (left_.exchange(true)) return;
  for (Peer& peer : peers_) send(peer, kLeaving);
}

void PeerWatch::tell(const std::string& reason) {
  if (left_) return;
  for (Peer& peer : peers_) send(peer, kFailing, concat(own_name_, " stopped: ", reason));
}

std::string PeerWatch::failure(const std::string& otherwise) const {
  const auto until = Clock::now() + kNewsWithin;
  while (!failed_ && Clock::now() < until) ::usleep(10000);
  const std::lock_guard lock(mutex_);
  return failure_.empty() ? otherwise : failure_;
}

void PeerWatch::send(Peer& peer, char kind, const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::string message(kMessageHeader, kind);
  const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), kLongestText));
  std::memcpy(message.data() + 1, &length, sizeof length);
  message.append(text, 0, length);
  try {
    peer.socket.send_all(std::as_bytes(std::span(message)), Clock::now() + std::chrono::seconds(1));
  } catch (const Error&) {
    // Whoever cannot be told is gone; that is noticed where it is listened to.
  }
}

void PeerWatch::note(const std::string& what, bool pass_on) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_ || left_) return;
    failure_ = what;
    failed_at_ = Clock::now();
  }
  if (pass_on) {
    for (Peer& peer : peers_) send(peer, kFailing, what);
  }
  failed_ = true;
}

void PeerWatch::read_messages(Peer& peer) {
  while (peer.received.size() >= kMessageHeader) {
    std::uint32_t length = 0;
    std::memcpy(&length, peer.received.data() + 1, sizeof length);
    if (length > kLongestText) return note(concat(peer.name, " sends what is no message"), true);
    if (peer.received.size() < kMessageHeader + length) return;
    const char kind = peer.received.front();
    if (kind == kLeaving) peer.left = true;
    if (kind == kFailing) note(peer.received.substr(kMessageHeader, length), rank_ == 0);
    peer.received.erase(0, kMessageHeader + length);
  }
}

void PeerWatch::listen(Peer& peer) {
  std::byte buffer[4096];
  const std::ptrdiff_t count = peer.socket.receive_some(buffer);
  if (count > 0) {
    peer.heard = Clock::now();
    peer.received.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(count));
    return read_messages(peer);
  }
  if (count == 0) return;
  if (!peer.left) note(concat(peer.name, " has ended or lost its connection"), rank_ == 0);
  peer.left = true;
}

void PeerWatch::check_silence(Peer& peer) {
  if (peer.left || Clock::now() - peer.heard < silence_) return;
  note(concat(peer.name, " hangs: nothing was heard of it for ", silence_.count(), " seconds"),
       rank_ == 0);
  peer.left = true;
}

void PeerWatch::end_if_stuck() {
  if (!failed_ || Clock::now() - failed_at_ < kGrace) return;
  log_error(failure(""));
  ::_exit(static_cast<int>(ExitCode::kFatal));
}

void PeerWatch::run() {
  Deadline last_look = Clock::now();
  Deadline next_beat = last_look;
  while (!ending_) {
    std::vector<pollfd> entries;
    for (const Peer& peer : peers_) {
      entries.push_back({peer.left ? -1 : peer.socket.descriptor(), POLLIN, 0});
    }
    ::poll(entries.data(), entries.size(), 50);
    // After this process itself was held up, the others get their time anew.
    const auto now = Clock::now();
    const bool held_up = now - last_look > silence_ / 2;
    last_look = now;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (entries[i].revents != 0) listen(peers_[i]);
      if (held_up) peers_[i].heard = now;
      check_silence(peers_[i]);
    }
    if (now >= next_beat) {
      next_beat = now + beat_;
      for (Peer& peer : peers_) {
        if (!peer.left) send(peer, kAlive);
      }
    }
    end_if_stuck();
  }
}

}  // namespace coldframe
