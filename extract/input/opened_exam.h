// An exam whose files are open and counted: its slots and their times are known before a pixel is
// decoded. Memory holds one decoded frame, and up to 32 MiB of those that look() has decoded.
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

// As Source::notes(), and the first file of which it holds, as ExamItem::name.
struct Note {
  std::string text, file;
};

class OpenedExam {
 public:
  struct Slot {
    std::size_t item = 0;                                      // index into ExamSpec::items
    Source* source = nullptr;                                  // null: a missing frame
    std::int64_t index = 0;                                    // of the frame in its source
    double time_s = std::numeric_limits<double>::quiet_NaN();  // since the exam's first frame
    std::string fault = {};  // why it has no source; "" for a frame that has no file
    bool is_tail = false;    // it stands for the lost tail of its file
  };

  // All must outlive this; the digest follows what is read. DataError when no file can be opened,
  // with the first one's reason, or when the exam has missing frames alone.
  OpenedExam(const ExamSpec& exam, const ReaderOptions& options, SourceDigest* digest = nullptr);

  const std::vector<Slot>& slots() const { return slots_; }
  // The registry's name of the first file's reader, "images" for several image files.
  const std::string& kind() const { return kind_; }
  // What the order of its frames and their times rest on.
  OrderBasis basis() const;
  std::vector<Note> notes() const;  // of its files, as far as they have been read; each text once

  // Indices into slots(), ascending. DataError when every selected frame is a missing one.
  std::vector<std::int64_t> select(const FrameSelection& selection) const;

  // Decodes the slots with the given ascending indices and hands them over as slot 0, 1, …; `sink`
  // returns false to stop early. One that cannot be decoded is handed over as a missing one, with
  // its fault. DataError when a file is damaged so that nobody knows which of its frames are whole.
  void read(std::span<const std::int64_t> slots, const std::function<bool(ExamSlot&&)>& sink) const;
  // The same before they are read. Frames of files that have one are kept for that, in at most 32
  // MiB, and not decoded once more.
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
  void read_slots(std::span<const Slot> slots, const std::function<bool(ExamSlot&&)>& sink) const;

  const ExamSpec& exam_;
  const ReaderOptions& options_;
  SourceDigest* digest_;
  std::map<std::filesystem::path, std::unique_ptr<Source>> sources_;
  std::shared_ptr<const ByteSource> held_;  // the last one's open file, for a clip is read at once
  std::map<std::filesystem::path, std::string> faults_;  // of files that cannot be opened
  std::vector<Slot> slots_;
  std::string kind_;
  bool header_times_ = false;                    // of several files, by their headers
  mutable std::map<const Source*, Frame> seen_;  // of look()
};

}  // namespace coldframe::frames
