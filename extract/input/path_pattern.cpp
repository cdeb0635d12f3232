#include "extract/input/path_pattern.h"

#include <map>
#include <regex>

#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"

namespace coldframe::frames {

struct PathPattern::State {
  std::string text;
  std::regex expression;
  std::size_t exam = 0, patient = 0;  // numbers of the groups; 0: there is none
};

namespace {

[[noreturn]] void refuse_pattern(const std::string& pattern, const std::string& reason) {
  throw ConfigError(concat("--exam-from '", pattern, "': ", reason,
                           "; expected a regular expression such as ",
                           "'P(?<patient>\\d+)/(?<exam>.+)'"));
}

// A group's number counts the opening parentheses that capture up to it.
class GroupNames {
 public:
  explicit GroupNames(const std::string& pattern) : pattern_(pattern) {
    for (at_ = 0; at_ < pattern.size(); ++at_) take();
  }

  std::string plain;                          // the pattern without names
  std::map<std::string, std::size_t> number;  // name -> group

 private:
  void take() {
    const char c = pattern_[at_];
    plain += c;
    if (c == '\\' && at_ + 1 < pattern_.size()) {
      plain += pattern_[++at_];
    } else if (c == '[') {
      in_class_ = true;
    } else if (c == ']') {
      in_class_ = false;
    } else if (c == '(' && !in_class_) {
      open_group();
    }
  }

  void open_group() {
    const std::string_view rest = std::string_view(pattern_).substr(at_ + 1);
    const bool as_in_python = rest.starts_with("?P<");
    const bool named = as_in_python || (rest.starts_with("?<") && !rest.starts_with("?<=") &&
                                        !rest.starts_with("?<!"));
    if (!rest.starts_with("?") || named) ++groups_;
    if (!named) return;
    const std::size_t begin = as_in_python ? 3 : 2;
    const auto end = rest.find('>');
    const std::string name(rest.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos || (name != "exam" && name != "patient"))
      refuse_pattern(pattern_, concat("the group '", name, "' is neither 'exam' nor 'patient'"));
    if (!number.emplace(name, groups_).second)
      refuse_pattern(pattern_, concat("the group '", name, "' occurs twice"));
    at_ += end + 1;
  }

  const std::string& pattern_;
  std::size_t at_ = 0, groups_ = 0;
  bool in_class_ = false;
};

std::string without_suffix(const std::string& name) {
  std::filesystem::path path = name;
  return path.replace_filename(name_of_exam(path)).generic_string();
}

}  // namespace

PathPattern::PathPattern(const std::string& pattern) : state_(std::make_unique<State>()) {
  const GroupNames names(pattern);
  if (!names.number.contains("exam")) refuse_pattern(pattern, "it has no group (?<exam>…)");
  state_->text = pattern;
  state_->exam = names.number.at("exam");
  if (names.number.contains("patient")) state_->patient = names.number.at("patient");
  try {
    // libstdc++'s search without back-tracking
    state_->expression.assign(
        names.plain, std::regex_constants::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    refuse_pattern(pattern, error.code() == std::regex_constants::error_complexity
                                ? "back-references are not supported"
                                : concat("it is malformed (", error.what(), ")"));
  }
}

PathPattern::~PathPattern() = default;

bool PathPattern::match(const std::string& path, Names& names) const {
  std::smatch found;
  if (!std::regex_search(path, found, state_->expression)) return false;
  names.exam = trim(found[state_->exam].str());
  names.patient = state_->patient > 0 ? trim(found[state_->patient].str()) : "";
  return !names.exam.empty();
}

void name_by_pattern(const PathPattern& pattern, ExamList& list) {
  std::vector<ExamSpec> exams;
  std::map<std::string, std::pair<std::size_t, std::string>> places;  // id -> place, its folder
  const auto add = [&](ExamSpec exam, const std::string& id, const std::string& from,
                       const PathPattern::Names& names) {
    const auto [entry, is_new] = places.try_emplace(names.exam, exams.size(), from);
    if (is_new) {
      exam.id = names.exam;
      exam.patient = names.patient;
      return exams.push_back(std::move(exam));
    }
    ExamSpec& same = exams[entry->second.first];
    if (from.empty() || entry->second.second != from)
      throw DataError(concat("--exam-from calls two exams '", names.exam, "': '",
                             same.items.front().name, "' and '", id,
                             "'; take more of the path into (?<exam>…)"));
    if (!spelt_alike(same.patient, names.patient))
      throw DataError(concat("--exam-from gives exam '", names.exam, "' the patients '",
                             same.patient, "' and '", names.patient, "'"));
    same.items.push_back(std::move(exam.items.front()));
  };
  for (ExamSpec& exam : list.exams) {
    PathPattern::Names names;
    if (exam.id_from_header) {
      exams.push_back(std::move(exam));
    } else if (pattern.match(exam.id, names)) {
      const std::string id = exam.id;
      add(std::move(exam), id, "", names);
    } else {
      for (ExamItem& item : exam.items) {
        const std::string path = without_suffix(item.name);
        if (!pattern.match(path, names))
          throw DataError(concat("--exam-from matches neither '", exam.id, "' nor '", path,
                                 "'; widen it, or take these files out of the folder"));
        ExamSpec one;
        one.items.push_back(std::move(item));
        add(std::move(one), path, exam.id + "/", names);
      }
    }
  }
  list.exams = std::move(exams);
}

}  // namespace coldframe::frames
