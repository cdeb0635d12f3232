#include "cache/read/scan.h"

#include <thread>

#include "common/threads/bounded_queue.h"
#include "common/threads/threads.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kScanBytes = 2u << 20, kRunsAhead = 4;

struct Run {
  std::span<const std::size_t> exams;
  std::vector<std::byte> rows;
};

void read_runs(const ShardSet& cache, std::size_t array, std::span<const std::size_t> exams,
               BoundedQueue<Run>& queue) {
  try {
    while (!exams.empty()) {
      Run run{exams.first(cache.run_length(exams, array, kScanBytes)), {}};
      std::size_t frames = 0;
      for (const std::size_t exam : run.exams) frames += cache.exams()[exam].frames();
      run.rows.resize(frames * cache.header().row_bytes(array));
      cache.read_run(run.exams, array, run.rows);
      exams = exams.subspan(run.exams.size());
      if (!queue.push(std::move(run))) return;
    }
    queue.close();
  } catch (...) {
    queue.fail(std::current_exception());
  }
}

}  // namespace

void scan_rows(const ShardSet& cache, std::size_t array, std::span<const std::size_t> exams,
               const std::function<void(std::size_t exam, std::span<const std::byte> rows)>& body) {
  BoundedQueue<Run> queue(kRunsAhead);
  const std::jthread reader = start_thread([&] { read_runs(cache, array, exams, queue); });
  try {
    while (const std::optional<Run> run = queue.pop()) {
      std::span<const std::byte> rows(run->rows);
      for (const std::size_t exam : run->exams) {
        const std::size_t bytes = cache.exams()[exam].frames() * cache.header().row_bytes(array);
        body(exam, rows.first(bytes));
        rows = rows.subspan(bytes);
      }
    }
  } catch (...) {
    queue.close();
    throw;
  }
}

}  // namespace coldframe::cache
