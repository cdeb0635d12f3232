// The tables of an import become the metadata of each exam.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/format/exam.h"
#include "cache/tool/exchange/feature_file.h"
#include "common/files/csv.h"

namespace coldframe::cache::tool {

// A table with a row for each frame, and perhaps one with a row for each exam, in either order: any
// CSV files with the column `exam`, or those that `export` wrote.
class ImportTables {
 public:
  // `frame_columns`: columns of a table that is alone which belong to the frames. DataError: not
  // such tables, an exam that one of them lacks.
  ImportTables(const std::vector<std::filesystem::path>& paths,
               const std::vector<std::string>& frame_columns);

  std::size_t rows() const { return frames_.rows.size(); }
  std::size_t exams() const { return exams_.size(); }
  const std::string& name() const { return frames_.name; }

  // The exam that is number `place` in the table, with its features; `features` has a row for each
  // of the table's. DataError names the line.
  ExamFeatures exam(std::size_t place, const FeatureFile& features) const;

 private:
  // Numbers of columns.
  struct FrameRoles {
    std::optional<std::size_t> index, time, present, source, patient;
    bool times_are_relative = false;  // to the exam's first frame already
    std::vector<std::size_t> of_exam, of_frame;
  };
  struct ExamRoles {
    std::optional<std::size_t> patient, frames, start_time, elapsed_start, kind, width, height;
    std::vector<std::size_t> columns;
  };
  struct Exam {
    std::string id;
    std::vector<std::size_t> rows;  // of the table of frames
    std::size_t row = 0;            // of the table of exams
  };
  void read_tables(const std::vector<std::filesystem::path>& paths);
  void find_frame_roles(const std::vector<std::string>& frame_columns);
  void find_exam_roles();
  void find_exams();
  void match_exams();
  void fill_frame(ExamInfo& info, std::size_t row, const FeatureFile& features,
                  std::span<float> values) const;
  void fill_from_frames(const Exam& exam, ExamInfo& info) const;
  void fill_times(const Exam& exam, ExamInfo& info) const;
  void fill_from_exams(const Exam& exam, ExamInfo& info) const;
  const std::string& constant(const Exam& exam, std::size_t column) const;

  CsvTable frames_;
  std::optional<CsvTable> exams_table_;
  FrameRoles frame_roles_;
  ExamRoles exam_roles_;
  bool frames_exported_ = false;
  std::vector<Exam> exams_;
  std::unordered_map<std::string, std::size_t> places_;  // of exams, by id
};

}  // namespace coldframe::cache::tool
