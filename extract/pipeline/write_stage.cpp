#include "extract/pipeline/write_stage.h"

#include <utility>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe::extract {
namespace {

// The message of a failure names its exam already: "exam 'a', frame 2: …" becomes "frame 2: …".
std::string without_exam(const std::string& reason, const std::string& exam) {
  const std::string name = concat("exam '", exam, "'");
  if (!reason.starts_with(name)) return reason;
  const std::size_t rest = reason.find_first_not_of(" ,:", name.size());
  return rest == std::string::npos ? reason : reason.substr(rest);
}

}  // namespace

WriteStage::WriteStage(cache::ShardWriter& writer, bool strict, std::size_t waiting)
    : writer_(writer),
      strict_(strict),
      queue_(waiting),
      thread_(start_thread([this] { work(); })) {}

WriteStage::~WriteStage() {
  queue_.close();
}

void WriteStage::push_work(Work&& work) {
  if (!queue_.push(std::move(work))) end();
}

void WriteStage::push(Finished&& finished) {
  push_work(std::move(finished));
}

void WriteStage::push_lost(LostFrames&& lost, bool is_new) {
  push_work(Lost{std::move(lost), is_new});
}

void WriteStage::end() {
  queue_.close();
  {
    const std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
  }
  if (error_) std::rethrow_exception(error_);
}

WriteCounts WriteStage::finish() {
  end();
  return std::move(counts_);
}

void WriteStage::work() {
  try {
    while (auto work = queue_.pop()) {
      if (const auto* lost = std::get_if<Lost>(&*work))
        note(*lost);
      else
        write(std::get<Finished>(*work));
    }
  } catch (...) {
    error_ = std::current_exception();
    queue_.close();
  }
}

void WriteStage::write(Finished& finished) {
  if (const auto* failure = std::get_if<cache::Failure>(&finished)) return fail(*failure);
  auto& exam = std::get<cache::ExamFeatures>(finished);
  cache::Failure unstorable{exam.info.id, exam.info.ordinal, exam.info.revision,
                            exam.info.frame_source.front(), ""};
  try {
    writer_.add(std::move(exam));
    ++counts_.exams;
    // A scheduler that stops the job may not wait for the rest, which is published together.
    if (stop_requested() && !std::exchange(stop_seen_, true)) writer_.publish();
  } catch (const DataError& error) {  // features that the storage type cannot hold
    unstorable.reason = error.what();
    fail(std::move(unstorable));
  }
}

void WriteStage::note(const Lost& lost) {
  const cache::Failure& failure = lost.frames.failure;
  if (strict_)
    throw DataError(concat("exam '", failure.exam, "': ", failure.reason, " (--strict)"));
  log_warning(concat("exam '", failure.exam, "', ", plural(lost.frames.frames, "frame"),
                     " that cannot be read and keep",
                     lost.frames.frames == 1 ? "s its slot: " : " their slots: ", failure.reason));
  if (lost.is_new) writer_.add_failure(failure);
  counts_.lost.push_back(lost.frames);
}

void WriteStage::fail(cache::Failure failure) {
  failure.reason = without_exam(failure.reason, failure.exam);
  if (strict_)
    throw DataError(concat("exam '", failure.exam, "': ", failure.reason, " (--strict)"));
  log_warning(concat("exam '", failure.exam, "' failed: ", failure.reason));
  writer_.add_failure(failure);
  counts_.failures.push_back(failure);
}

}  // namespace coldframe::extract
