#include "extract/pipeline/write_stage.h"

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe::extract {
namespace {

// What is said of a failure names its exam already: "exam 'a', frame 2: …" becomes "frame 2: …".
std::string without_exam(const std::string& reason, const std::string& exam) {
  const std::string name = concat("exam '", exam, "'");
  if (!reason.starts_with(name)) return reason;
  const std::size_t rest = reason.find_first_not_of(" ,:", name.size());
  return rest == std::string::npos ? reason : reason.substr(rest);
}

}  // namespace

WriteStage::WriteStage(cache::ShardWriter& writer, bool strict)
    : writer_(writer), strict_(strict), thread_(start_thread([this] { work(); })) {}

WriteStage::~WriteStage() {
  queue_.close();
}

void WriteStage::push(Finished&& finished) {
  if (!queue_.push(std::move(finished))) finish();
}

WriteCounts WriteStage::finish() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(error_);
  return std::move(counts_);
}

void WriteStage::work() {
  try {
    while (const auto finished = queue_.pop()) write(*finished);
  } catch (...) {
    error_ = std::current_exception();
    queue_.close();
  }
}

void WriteStage::write(const Finished& finished) {
  if (const auto* failure = std::get_if<cache::Failure>(&finished)) return fail(*failure);
  const auto& exam = std::get<cache::ExamFeatures>(finished);
  try {
    writer_.add(exam);
    ++counts_.exams;
  } catch (const DataError& error) {  // features that the storage type cannot hold
    fail({exam.info.id, exam.info.ordinal, exam.info.revision, exam.info.frame_source.front(),
          error.what()});
  }
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
