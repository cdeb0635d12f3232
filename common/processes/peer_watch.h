// Notices when another process of the job ends or hangs, however long no data is exchanged.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace c10d {
class Store;
}

namespace coldframe {

struct WatchOptions {
  std::chrono::milliseconds beat{250};  // between two signs of life
  std::chrono::seconds silence{15};     // after which a process counts as lost
};

// Each rank keeps one entry in the store, its sign of life or why it fails, and reads the others'.
// Calls of the store do not return when who keeps it hangs: a second thread notices that.
class PeerWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // Makes the rank's entry. Every process does so before it meets the others: their entries are
  // there then.
  static void register_rank(c10d::Store& store, int rank);

  // `store`: a connection of its own. `names`: of all ranks. `keeper`: who keeps the store.
  PeerWatch(c10::intrusive_ptr<c10d::Store> store, int rank, std::vector<std::string> names,
            std::string keeper, const WatchOptions& options);
  // Tells the others that this process failed, unless it left. The keeper of the store waits for
  // them.
  ~PeerWatch();

  bool failed() const { return failed_; }
  // Says what went wrong and what to do, after waiting a little for the news.
  std::string failure() const;

  void leave();                          // without fault
  void tell(const std::string& reason);  // why this process fails

 private:
  struct Peer {
    std::string name, entry;
    int beats = 0;      // without a sign of life
    bool gone = false;  // having left or failed
  };
  void talk();
  void exchange();
  void hear(Peer& peer, const std::string& entry);
  bool may_end() const;
  void look();
  void note(const std::string& what);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const std::string keeper_;
  const WatchOptions options_;
  std::vector<Peer> peers_;  // of all ranks
  std::vector<std::string> keys_;
  mutable std::mutex mutex_;  // of the next two
  std::string failure_;
  Clock::time_point failed_at_;
  std::atomic<int> looks_{0};  // since the store last answered
  std::atomic<bool> failed_{false}, left_{false}, ending_{false}, ended_{false};
  std::jthread talking_, looking_;
};

}  // namespace coldframe
