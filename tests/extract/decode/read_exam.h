// Reads an exam's frames as the programs do, without the stages between.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"

namespace coldframe::frames {

struct ExamSummary {
  std::string kind;  // as OpenedExam::kind()
  std::size_t slots = 0;
  OrderBasis basis;
  std::vector<Note> notes;
};

// By the reader of this name, whatever the file looks like.
inline std::unique_ptr<Source> open_by(std::string_view kind, const std::filesystem::path& path,
                                       const ReaderOptions& options) {
  for (const SourceKind* each : source_kinds())
    if (each->name == kind) return each->open(SourceFile(path), options);
  return nullptr;
}

// Hands the selected frames over one at a time, in order. DataError when none can be read.
inline ExamSummary read_exam(const ExamSpec& exam, const FrameSelection& selection,
                             const ReaderOptions& options,
                             const std::function<bool(ExamSlot&&)>& sink) {
  const OpenedExam opened(exam, options);
  const auto selected = opened.select(selection);
  bool found = false;
  std::string fault;
  opened.read(selected, [&](ExamSlot&& slot) {
    found = found || slot.present;
    if (fault.empty()) fault = slot.fault;
    return sink(std::move(slot));
  });
  if (!found && !fault.empty()) throw DataError(fault);
  return {opened.kind(), selected.size(), opened.basis(), opened.notes()};
}

}  // namespace coldframe::frames
