// A split as MedNet writes it: JSON that gives the exams, or the frames, of each part.
//
//   {"train": [["a/1.jpg", 0], …], "validation": […], "test": […]}
//   {"train": [{"exam": "a", "label": 0, "frames": [{"file": "1.jpg", "elapsed_seconds": 58.0},
//   …]}, …], …}
//
// In the first form the images of a folder are an exam, in natural order. Source of both:
// MedNet 2.1.0, mednet/data/temporal/hyperftype_split.py.
#include <algorithm>
#include <map>
#include <set>

#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/text.h"
#include "extract/frames/input/exam_list.h"
#include "extract/frames/input/file_name.h"
#include "extract/frames/input/manifest/times.h"

namespace coldframe::frames {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected a split: {\"train\": [[\"exam/1.jpg\", label], …], \"validation\": …, \"test\": …}, "
    "or "
    "lists of {\"exam\": \"folder\", \"label\": …, \"frames\": [{\"file\": \"1.jpg\", "
    "\"elapsed_seconds\": 58.0}, …]}";

class SplitReader {
 public:
  SplitReader(const fs::path& path, const ExamListOptions& options)
      : path_(path),
        root_(options.root.empty() ? path.parent_path() : options.root),
        options_(options) {}

  ExamList read() {
    const Json json = read_json_file(path_);
    if (!json.is_object() || json.empty()) refuse("", "it is no object of parts");
    for (const auto& [part, entries] : json.items()) {
      part_ = part;
      if (!is_part(part)) refuse("", concat("'", part, "' is no part (train, validation or test)"));
      if (!entries.is_array()) refuse(place(), "it is no list");
      number_ = 0;
      for (const Json& entry : entries) {
        ++number_;
        entry.is_array() ? add_frame(entry) : add_exam(entry);
      }
    }
    return finish();
  }

 private:
  static bool is_part(const std::string& name) {
    return name == "train" || name == "validation" || name == "val" || name == "valid" ||
           name == "test";
  }

  std::string place() const { return concat(" at ", part_, number_ ? concat(" ", number_) : ""); }

  [[noreturn]] void refuse(const std::string& where, const std::string& why) const {
    throw DataError(concat(path_.string(), where, ": ", why, "; ", kExpected));
  }

  std::string text_of(const Json& value, const char* what) const {
    if (value.is_string() && !value.get<std::string>().empty()) return value.get<std::string>();
    refuse(place(), concat(what, " is ", value.dump(), ", no text"));
  }

  // A number or a word, as a column holds it.
  std::string label_of(const Json& value) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    refuse(place(), concat("the label is ", value.dump(), ", neither a number nor a text"));
  }

  ManifestDraft& draft_of(const std::string& exam, const std::string& label, bool may_stand) {
    const auto [found, is_new] = draft_of_.try_emplace(exam, drafts_.size());
    if (is_new) {
      ManifestDraft draft;
      draft.spec.id = exam;
      draft.spec.columns = {{"split", part_}, {"label", label}};
      drafts_.push_back(std::move(draft));
    } else if (!may_stand) {
      refuse(place(), concat("exam '", exam, "' is there a second time"));
    }
    return drafts_[found->second];
  }

  void add_item(ManifestDraft& draft, const std::string& name, std::optional<Timestamp> time) {
    if (!seen_.insert(name).second) refuse(place(), concat("'", name, "' is there a second time"));
    ExamItem item;
    item.name = name;
    item.path = root_ / fs::path(name);
    draft.rows.push_back(draft.spec.items.size());
    draft.spec.items.push_back(std::move(item));
    draft.times.push_back(time);
  }

  // ["a/1.jpg", 0]
  void add_frame(const Json& entry) {
    if (entry.size() != 2) refuse(place(), concat("it is ", shown(entry), ", no [path, label]"));
    const std::string name = text_of(entry[0], "the path"), label = label_of(entry[1]);
    const std::string exam = fs::path(name).parent_path().generic_string();
    lists_frames_alone_ = true;
    if (exam.empty())
      refuse(place(), concat("'", name, "' lies in no folder, which would name its exam"));
    ManifestDraft& draft = draft_of(exam, label, true);
    const auto& columns = draft.spec.columns;
    if (columns[0].second != part_ || columns[1].second != label)
      throw DataError(concat(path_.string(), place(), ": exam '", exam, "' has label ", label,
                             " in ", part_, " here, and label ", columns[1].second, " in ",
                             columns[0].second,
                             " before; give all frames of a folder one label and one part"));
    add_item(draft, name, std::nullopt);
  }

  // {"exam": "a", "label": 0, "frames": […]}
  void add_exam(const Json& entry) {
    for (const char* key : {"exam", "label", "frames"})
      if (!entry.is_object() || !entry.contains(key))
        refuse(place(), concat("it is ", shown(entry), ", without '", key, "'"));
    const std::string exam = text_of(entry["exam"], "the exam");
    ManifestDraft& draft = draft_of(exam, label_of(entry["label"]), false);
    if (!entry["frames"].is_array() || entry["frames"].empty())
      refuse(place(), concat("exam '", exam, "' has no list of frames"));
    for (const Json& frame : entry["frames"]) {
      const bool has_facts = frame.is_object() && frame.contains("file");
      const std::string file = text_of(has_facts ? frame["file"] : frame, "a frame");
      add_item(draft, (fs::path(exam) / file).generic_string(),
               has_facts ? time_of(frame) : std::nullopt);
    }
  }

  std::optional<Timestamp> time_of(const Json& frame) const {
    const auto found = frame.find("elapsed_seconds");
    if (found == frame.end() || found->is_null()) return std::nullopt;
    if (!found->is_number()) refuse(place(), concat("a time is ", found->dump(), ", no number"));
    return Timestamp{found->get<double>(), false};
  }

  static std::string shown(const Json& entry) {
    constexpr std::size_t kShown = 80;
    const std::string text = entry.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() > kShown ? text.substr(0, kShown) + "…" : text;
  }

  ExamList finish() {
    ExamList list;
    for (ManifestDraft& draft : drafts_) {
      settle_times(draft, options_, [&](std::size_t, const std::string& reason) {
        throw DataError(concat(path_.string(), ": ", reason));
      });
      if (lists_frames_alone_)
        std::ranges::stable_sort(draft.spec.items, natural_less, &ExamItem::name);
      list.exams.push_back(std::move(draft.spec));
    }
    if (list.exams.empty()) refuse("", "its parts are empty");
    return list;
  }

  const fs::path path_, root_;
  const ExamListOptions& options_;
  std::string part_;
  std::size_t number_ = 0;           // of the entry in its part, from 1
  bool lists_frames_alone_ = false;  // the first form
  std::vector<ManifestDraft> drafts_;
  std::map<std::string, std::size_t> draft_of_;
  std::set<std::string> seen_;  // names of files
};

}  // namespace

ExamList list_split(const fs::path& split, const ExamListOptions& options) {
  return SplitReader(split, options).read();
}

}  // namespace coldframe::frames
