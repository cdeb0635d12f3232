#include "extract/pipeline/decode/read_ahead.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/source_stamp.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe::extract {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kThreads = 4;      // remote storage answers several at once
constexpr std::size_t kMostFiles = 256;  // each of which has a descriptor
constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::chrono::milliseconds kBetweenLooks{100};  // at the stop request

std::vector<fs::path> files_of(const frames::ExamSpec& exam) {
  std::vector<fs::path> files;
  for (const frames::ExamItem& item : exam.items)
    if (!item.path.empty()) files.push_back(item.path);
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return with_voxel_files(files);
}

std::uint64_t bytes_of(const std::vector<fs::path>& files) {
  std::uint64_t bytes = 0;
  for (const fs::path& file : files) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);
    if (!error) bytes += size;
  }
  return bytes;
}

void write_piece(const NamelessFile& file, std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(file.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw SystemError(std::strerror(count < 0 ? errno : EIO));
    at += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

StagedCopy copy_file(const InputFile& original, const std::shared_ptr<const NamelessFile>& into,
                     std::uint64_t begin) {
  std::vector<std::byte> piece(std::min<std::uint64_t>(kPieceBytes, original.size()));
  std::uint64_t at = 0;
  while (at < original.size() && !stop_requested()) {
    const std::size_t count = original.read_some(at, piece);
    if (count == 0) break;
    write_piece(*into, begin + at, std::span(piece).first(count));
    at += count;
  }
  if (at < original.size()) throw DataError("it became shorter while it was read");
  return {into, begin, at, original.identity()};
}

}  // namespace

// Has the copies of one exam. Its room is given back when nobody reads them any more, which may be
// after the exam was dropped: another one may have the same files.
struct ReadAhead::RoomyFile {
  struct Lease {
    std::shared_ptr<Room> room;
    std::uint64_t bytes;
    ~Lease() {
      const std::lock_guard lock(room->mutex);
      room->bytes -= bytes;
      --room->files;
      room->changed.notify_all();
    }
  };
  Lease lease;
  NamelessFile file;  // goes before its lease
};

ReadAhead::ReadAhead(fs::path folder, std::uint64_t most_bytes, std::span<const ExamTask> tasks)
    : folder_(std::move(folder)), most_bytes_(most_bytes), tasks_(tasks), stages_(tasks.size()) {
  const NamelessFile trial(folder_);
  threads_ = start_threads(
      kThreads, [this] { work(); }, 1);
}

ReadAhead::~ReadAhead() {
  stop();
}

void ReadAhead::stop() {
  const std::lock_guard lock(room_->mutex);
  stopped_ = true;
  room_->changed.notify_all();
}

void ReadAhead::wait_for(std::size_t task) {
  std::unique_lock lock(room_->mutex);
  while (!stages_[task].ready && !stopped_ && !stop_requested())
    room_->changed.wait_for(lock, kBetweenLooks);
}

void ReadAhead::drop(std::size_t task) {
  Copies last;  // goes after the lock, which leases take
  const std::lock_guard lock(room_->mutex);
  last = std::exchange(stages_[task], {true, {}}).copies;
}

std::uint64_t ReadAhead::bytes_taken() const {
  const std::lock_guard lock(room_->mutex);
  return room_->bytes;
}

// Room goes to tasks in their order: one that waits for it waits for earlier ones, which decoders
// have or will take, to be dropped. Null: there is no room for these files at all.
std::shared_ptr<ReadAhead::RoomyFile> ReadAhead::reserve(std::size_t task, std::uint64_t bytes) {
  std::unique_lock lock(room_->mutex);
  const bool possible = bytes > 0 && bytes <= most_bytes_;
  const auto has_turn = [&] {
    return next_reserved_ == task &&
           (!possible || (room_->files < kMostFiles && room_->bytes + bytes <= most_bytes_));
  };
  while (!has_turn() && !stopped_ && !stop_requested())
    room_->changed.wait_for(lock, kBetweenLooks);
  next_reserved_ = std::max(next_reserved_, task + 1);
  room_->changed.notify_all();
  if (!possible || stopped_ || stop_requested()) return nullptr;
  room_->bytes += bytes;
  ++room_->files;
  lock.unlock();
  return std::shared_ptr<RoomyFile>(new RoomyFile{{room_, bytes}, NamelessFile(folder_)});
}

void ReadAhead::say_once(bool& said, const std::string& message) {
  const std::lock_guard lock(room_->mutex);
  if (!std::exchange(said, true)) log_warning(message);
}

// A file that several exams have is copied once while one of them holds it, and what lies beside it
// stays as long. One that has grown out of the room is read where it lies.
ReadAhead::Copies ReadAhead::copy(const std::vector<fs::path>& files,
                                  const std::shared_ptr<RoomyFile>& into) {
  const std::shared_ptr<const NamelessFile> file(into, &into->file);
  Copies copies;
  std::uint64_t begin = 0;
  for (const fs::path& path : files) {
    try {
      auto copy = find_copy(path);
      if (!copy) {
        const InputFile original(path);
        if (original.size() > into->lease.bytes - begin) continue;
        copy = offer_copy(path, copy_file(original, file, begin));
        begin += copy->size;
      }
      copies.push_back(std::move(copy));
    } catch (const DataError&) {  // the decoder meets it again, and says so
    }
  }
  return copies;
}

void ReadAhead::work() {
  for (;;) {
    std::size_t task = 0;
    {
      const std::lock_guard lock(room_->mutex);
      if (stopped_ || stop_requested() || next_ == tasks_.size()) return;
      task = next_++;
    }
    const std::vector<fs::path> files = files_of(*tasks_[task].exam);
    const std::uint64_t bytes = bytes_of(files);
    Copies copies;
    if (bytes > most_bytes_)
      say_once(told_large_, concat("exam '", tasks_[task].exam->id, "' has ", human_bytes(bytes),
                                   " of files, more than --stage-size ", human_bytes(most_bytes_),
                                   "; such exams are read where they lie"));
    try {
      if (const auto into = reserve(task, bytes)) copies = copy(files, into);
    } catch (const std::exception& error) {
      say_once(told_full_, concat("--stage ", folder_.string(), ": ", error.what(),
                                  "; exams that find no room there are read where they lie"));
    }
    const std::lock_guard lock(room_->mutex);
    stages_[task] = {true, std::move(copies)};
    room_->changed.notify_all();
  }
}

}  // namespace coldframe::extract
