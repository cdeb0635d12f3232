// Notices when another process of the job ends or hangs, however long no data is exchanged.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/system/socket.h"

namespace coldframe {

// A thread on each rank. Everyone sends a sign of life to rank 0, and rank 0 to everyone; rank 0
// passes on what it hears of a failure.
class PeerWatch {
 public:
  // `control`, `names`: see Connections.
  PeerWatch(int rank, std::vector<Socket> control, std::vector<std::string> names,
            std::chrono::seconds beat, std::chrono::seconds silence);
  ~PeerWatch();

  bool failed() const { return failed_; }
  // What went wrong, waiting for the news a little. `otherwise`: when nothing was heard.
  std::string failure(const std::string& otherwise) const;

  void leave();                          // without fault
  void tell(const std::string& reason);  // why this process fails

 private:
  struct Peer {
    Socket socket;
    std::string name, received;
    Deadline heard;
    bool left = false;
  };
  void run();
  void listen(Peer& peer);
  void read_messages(Peer& peer);
  void check_silence(Peer& peer);
  void note(const std::string& what, bool pass_on);
  void send(Peer& peer, char kind, const std::string& text = {});
  void end_if_stuck();

  const int rank_;
  const std::string own_name_;
  const std::chrono::seconds beat_, silence_;
  std::vector<Peer> peers_;
  mutable std::mutex mutex_;  // of sending and of failure_
  std::string failure_;
  Deadline failed_at_;
  std::atomic<bool> failed_{false}, ending_{false}, left_{false};
  std::jthread thread_;
};

}  // namespace coldframe
