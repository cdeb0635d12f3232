#include "common/processes/peer_watch.h"

#include <unistd.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe {
namespace {

// The first letter of an entry.
constexpr char kAlive = 'a', kLeft = 'l', kFailed = 'f';

// The time that the main thread has, once a failure is known, to report it itself.
constexpr std::chrono::seconds kGrace{8};
constexpr std::chrono::seconds kNewsWithin{3};
constexpr std::chrono::milliseconds kMoment{50};

std::string watch_key(std::size_t rank) {
  return concat("watch/", rank);
}

}  // namespace

void PeerWatch::register_rank(c10d::Store& store, int rank) {
  store.set(watch_key(static_cast<std::size_t>(rank)), std::string(1, kAlive));
}

PeerWatch::PeerWatch(c10::intrusive_ptr<c10d::Store> store, int rank,
                     std::vector<std::string> names, std::string keeper,
                     const WatchOptions& options)
    : store_(std::move(store)), rank_(rank), keeper_(std::move(keeper)), options_(options) {
  for (std::string& name : names) {
    keys_.push_back(watch_key(peers_.size()));
    peers_.push_back({std::move(name), ""});
  }
  looking_ = start_thread([this] { look(); });
  try {
    talking_ = start_thread([this] { talk(); });
  } catch (...) {
    ended_ = true;
    throw;
  }
}

PeerWatch::~PeerWatch() {
  if (!left_ && !failed_) tell("it ended before the job was done");
  ending_ = true;
  talking_.join();
  ended_ = true;
  looking_.join();
}

void PeerWatch::leave() {
  left_ = true;
}

void PeerWatch::tell(const std::string& reason) {
  note(concat(peers_[static_cast<std::size_t>(rank_)].name, " stopped: ", reason));
}

void PeerWatch::note(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (failed_ || (left_ && !ending_)) return;
  failure_ = what;
  failed_at_ = Clock::now();
  failed_ = true;
}

std::string PeerWatch::failure() const {
  const auto until = Clock::now() + kNewsWithin;
  while (!failed_ && Clock::now() < until) std::this_thread::sleep_for(kMoment);
  const std::lock_guard lock(mutex_);
  return concat(failed_ ? failure_ : concat(keeper_, " has ended or lost its connection"),
                "; this job cannot go on without it: start it again, with --resume, to continue");
}

void PeerWatch::talk() {
  try {
    for (bool last = false; !last;) {
      last = may_end();
      exchange();
      const bool lingers = ending_;
      const auto next = Clock::now() + options_.beat;
      while (!last && ending_ == lingers && Clock::now() < next)
        std::this_thread::sleep_for(kMoment);
    }
  } catch (const std::exception&) {
    note(concat(keeper_, " has ended or lost its connection"));
  }
}

// The process that keeps the store stays until the others have left, or know of the failure.
bool PeerWatch::may_end() const {
  if (!ending_ || rank_ != 0) return ending_;
  const std::lock_guard lock(mutex_);
  return (failed_ && Clock::now() > failed_at_ + kNewsWithin) ||
         std::all_of(peers_.begin() + 1, peers_.end(), [](const Peer& peer) { return peer.gone; });
}

void PeerWatch::exchange() {
  const auto own = static_cast<std::size_t>(rank_);
  Peer& self = peers_[own];
  {
    const std::lock_guard lock(mutex_);
    if (failed_) {
      self.entry = kFailed + failure_;
    } else {
      self.entry = left_ ? std::string(1, kLeft) : concat(kAlive, ++self.beats);
    }
  }
  store_->set(keys_[own], self.entry);
  const auto entries = store_->multiGet(keys_);
  looks_ = 0;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (i != own) hear(peers_[i], {entries.at(i).begin(), entries[i].end()});
  }
}

// Counts beats, not seconds: after this process itself was held up, the others get their time anew.
void PeerWatch::hear(Peer& peer, const std::string& entry) {
  if (entry != peer.entry) {
    peer.entry = entry;
    peer.beats = 0;
    peer.gone = !entry.starts_with(kAlive);
    if (entry.starts_with(kFailed)) note(entry.substr(1));
  }
  if (peer.gone || ++peer.beats * options_.beat < options_.silence) return;
  peer.gone = true;
  note(concat(peer.name,
              " has ended or lost its connection, or hangs: nothing was heard of it for ",
              options_.silence.count(), " seconds"));
}

void PeerWatch::look() {
  while (!ended_) {
    std::this_thread::sleep_for(kMoment);
    if (++looks_ * kMoment >= options_.silence) {
      note(concat(keeper_, " hangs: nothing was heard of it for ", options_.silence.count(),
                  " seconds"));
    }
    if (!failed_ || Clock::now() - failed_at_ < kGrace) continue;
    log_error(failure());
    ::_exit(static_cast<int>(ExitCode::kFatal));
  }
}

}  // namespace coldframe
