// An exam with its files opened and frames counted: slots and their times are known before any
// pixel is decoded. Holds one decoded frame in memory, plus up to 32 MiB of frames that look()
// decoded.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/select_frames.h"

namespace coldframe::frames {

// A text of Source::notes() and the first file that it applies to, as ExamItem::name.
struct Note {
  std::string text, file;
};

class OpenedExam {
 public:
  struct Slot {
    std::size_t item = 0;        // index into ExamSpec::items
    Source* source = nullptr;    // null: a missing frame
    std::int64_t index = 0;      // index of the frame in its source
    double time_s = kNotStated;  // since the exam's first frame
    std::string fault = {};      // why it has no source; "" for a frame that has no file
    bool is_tail = false;        // it represents the lost tail of its file
  };

  // All arguments must outlive this; the digest accumulates what is read. DataError if no file can
  // be opened (with the first one's reason) or if all frames are missing.
  OpenedExam(const ExamSpec& exam, const ReaderOptions& options, SourceDigest* digest = nullptr);

  const std::vector<Slot>& slots() const { return slots_; }
  // The registry's name of the first file's reader, "images" for several image files.
  const std::string& kind() const { return kind_; }
  // The basis of its frames' order and times.
  OrderBasis basis() const;
  std::vector<Note> notes() const;  // of its files as read so far; each text once

  // Windows over the selected slots. DataError if all of their frames are missing.
  std::vector<FrameWindow> windows(const FrameSelection& selection) const;
  // The slots of these windows, ascending.
  std::vector<std::int64_t> select(const FrameSelection& selection) const;

  // The volume that its files form: one NIfTI file, one file of several DICOM slices, or the slices
  // of a series. DataError: they form none (Source::planes(), stack()), or a file cannot be read.
  VolumeGeometry volume_geometry() const;
  Volume volume() const;  // with its values

  // Decodes the slots with the given ascending indices and passes them to `sink` as slot 0, 1, …;
  // `sink` returns false to stop early. A frame that cannot be decoded is passed as missing, with
  // its fault. DataError if a file is damaged so that any of its frames may be corrupt.
  void read(std::span<const std::int64_t> slots, const std::function<bool(ExamSlot&&)>& sink) const;
  // As read(), but as a preview before it. Keeps the frames of single-frame files (at most 32 MiB)
  // so that read() need not decode them again.
  void look(std::span<const std::int64_t> slots, const std::function<bool(ExamSlot&&)>& sink) const;

 private:
  void add_item(std::size_t item);
  void add_lost(std::size_t item, std::int64_t first, std::int64_t last, const std::string& fault);
  Source* open(const std::filesystem::path& path);
  ReaderOptions options_for_files() const;
  std::vector<double> times_to_select_by() const;
  bool states_times() const;  // the input
  void set_times();
  void set_times_from_headers();
  void settle_range() const;
  struct Stack;
  Stack stack_of_files() const;
  void read_slots(std::span<const Slot> slots, const std::function<bool(ExamSlot&&)>& sink) const;

  const ExamSpec& exam_;
  const ReaderOptions& options_;
  SourceDigest* digest_;
  std::map<std::filesystem::path, std::unique_ptr<Source>> sources_;
  std::shared_ptr<const ByteSource> held_;  // the last one's open file: a clip is read at once
  std::map<std::filesystem::path, std::string> faults_;  // of files that could not be opened
  std::vector<Slot> slots_;
  std::string kind_;
  bool header_times_ = false;                    // times come from the headers of several files
  mutable std::map<const Source*, Frame> seen_;  // of look()
};

}  // namespace coldframe::frames
