// Claims divide work among processes, on this machine and on others, through a folder that all see.
// They need no locks, so that they hold on network file systems.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace coldframe {

struct ClaimOptions {
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds beat{5000};        // between two signs of life of an owner
  std::chrono::milliseconds patience{60'000};  // after which an owner without any counts as lost
  std::function<Clock::time_point()> now = Clock::now;
};

// A claim is a file that only one process can put under its name. It names its owner and holds a
// counter that the owner raises as a sign of life. The claim of a dead process of this machine is
// taken over at once, any other one when its counter has stood still for the patience. Who waits
// measures that by its own clock: clocks are never compared.
//
// A claim saves work and protects nothing. A process that was suspended may go on with what another
// one has taken over, so that claimed work must do no harm when it is done twice: its result
// depends on nothing else, and is published atomically.
class Claims {
 public:
  explicit Claims(std::filesystem::path folder, ClaimOptions options = {});
  ~Claims();  // releases what is claimed
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // False when another process, or this one, has the claim, and when the folder is gone.
  // SystemError when a claim cannot be written.
  bool take(const std::string& name);
  void release(const std::string& name);  // nothing where it is not ours

 private:
  struct Seen {
    std::string content;
    ClaimOptions::Clock::time_point since;
  };
  std::filesystem::path file_of(const std::string& name) const;
  bool is_abandoned(const std::string& name);
  int put(const std::filesystem::path& path, bool take_over) const;
  std::string content() const;
  void show_life();

  const std::filesystem::path folder_;
  const ClaimOptions options_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_;
  std::map<std::string, int> held_;   // descriptors, by name
  std::map<std::string, Seen> seen_;  // others' claims
  std::uint64_t beats_ = 0;
  bool stopping_ = false;
  std::jthread living_;
};

// Pauses between two looks at what others have done: longer each time, up to a second.
class Waiting {
 public:
  void pause();

 private:
  std::chrono::milliseconds next_{10};
};

}  // namespace coldframe
