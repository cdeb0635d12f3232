#include "extract/input/patients.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"

namespace coldframe::frames {

namespace {

constexpr std::size_t kSaltDigits = 6;

// Letters and digits; all that is not ASCII counts as letters.
bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

// "P1" is a word of "P1/a.png" and of "x_P1", not of "P12/a.png".
bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_word_character(text[at - 1]);
    if (begins && (end == text.size() || !is_word_character(text[end]))) return true;
  }
  return false;
}

bool names_show_patient(const ExamSpec& exam) {
  return has_word(exam.id, exam.patient) ||
         std::ranges::any_of(
             exam.items, [&](const ExamItem& item) { return has_word(item.name, exam.patient); });
}

// Log files keep no names that a cache hides.
[[noreturn]] void ask_whether_one(const ExamSpec& a, const ExamSpec& b, bool named) {
  throw ConfigError(concat(
      "the patients of the exams '", a.id, "' and '", b.id, "' have ids that are equal as numbers ",
      "and spelt apart", named ? concat(" ('", a.patient, "' and '", b.patient, "')") : "",
      ", such as 0123, 123 and 123.0: if they are one person, spell them alike or give "
      "--equal-numbers same; if they are two, give --equal-numbers different"));
}

// Hashes of two spellings of one person would have nothing in common.
void unify_patients(ExamList& list, const ReaderOptions& options) {
  std::vector<std::string> patients;
  for (const ExamSpec& exam : list.exams) patients.push_back(as_utf8(exam.patient));
  if (options.equal_numbers == EqualNumbers::kAsk)
    if (const auto two = find_equal_numbers(patients))
      ask_whether_one(list.exams[two->first], list.exams[two->second], options.keep_patient_id);
  const std::vector<std::string> before = patients;
  const std::string changes = unify_spelling(patients, options.equal_numbers);
  std::size_t exams = 0;
  for (std::size_t i = 0; i < patients.size(); ++i) {
    exams += before[i] != patients[i];
    list.exams[i].patient = std::move(patients[i]);
  }
  if (!changes.empty())
    list.warnings.push_back(
        concat("patients whose ids differ in spelling alone (case, spaces, forms of Unicode",
               options.equal_numbers == EqualNumbers::kSame ? ", zeros" : "",
               ") are taken as one person, ",
               options.keep_patient_id ? changes : concat("in ", plural(exams, "exam")),
               "; if they are different people, give them ids that differ more"));
}

// Exams keep their ids, which are names of files.
void warn_of_like_exams(ExamList& list) {
  std::unordered_map<std::string, std::size_t> seen;
  std::size_t more = 0;
  std::string first;
  for (std::size_t i = 0; i < list.exams.size(); ++i) {
    const auto [before, is_new] = seen.try_emplace(plain_spelling(list.exams[i].id), i);
    if (is_new) continue;
    if (first.empty())
      first = concat("the exams '", list.exams[before->second].id, "' and '", list.exams[i].id,
                     "' have ids that differ in spelling alone");
    else
      ++more;
  }
  if (first.empty()) return;
  list.warnings.push_back(
      concat(first, more > 0 ? concat(", and so have ", more, " more") : "",
             "; they are taken as two: if one is a copy of the other, take it out"));
}

}  // namespace

std::size_t count_patients(const ExamList& list) {
  std::set<std::string_view> patients;
  for (const ExamSpec& exam : list.exams)
    if (!exam.patient.empty()) patients.insert(exam.patient);
  return patients.size();
}

std::string patients_text(const PatientNames& patients) {
  if (!patients.hashed.value_or(false)) return "stored as they are named (--keep-patient-id)";
  return concat(
      "stored as hashes (--keep-patient-id stores them as they are named)",
      patients.shown_by_names == 0
          ? ""
          : concat("; the ids or files' names of ", plural(patients.shown_by_names, "exam"),
                   " show them all the same: name exams and files otherwise to hide "
                   "them"));
}

void store_patients(ExamList& list, const ReaderOptions& options) {
  for (const ExamSpec& exam : list.exams)
    list.patients.shown_by_names +=
        !options.keep_patient_id && !exam.patient.empty() && names_show_patient(exam);
  warn_of_like_exams(list);
  unify_patients(list, options);
  for (ExamSpec& exam : list.exams) {
    if (exam.patient.empty()) continue;
    list.patients.hashed = !options.keep_patient_id;
    exam.patient = stored_identity(exam.patient, options);
  }
  if (!list.patients.hashed.value_or(false)) return;
  list.patients.numbers_alike = options.equal_numbers == EqualNumbers::kSame;
  list.patients.salt =
      sha256_hex("a salt of patients: " + options.patient_salt).substr(0, kSaltDigits);
}

}  // namespace coldframe::frames

namespace coldframe::extract {

namespace {

namespace fs = std::filesystem;

fs::path absolute_variable(const char* name) {
  const char* value = std::getenv(name);
  return value && fs::path(value).is_absolute() ? fs::path(value) : fs::path();
}

std::string random_salt() {
  std::array<std::byte, 32> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw SystemError("the system gives no random bytes for --patient-salt; give one");
  return to_hex(bytes);
}

constexpr const char* kGiveOne = "give --patient-salt or set COLDFRAME_PATIENT_SALT";

std::string read_salt(const fs::path& path) {
  std::string salt;
  try {
    salt = trim(read_text_file(path, 4096));
  } catch (const DataError& error) {
    throw DataError(
        concat("the salt of patients' hashes: ", error.what(), "; mend that, or ", kGiveOne));
  }
  if (salt.empty())
    throw DataError(concat("'", path.string(), "' is empty; it should hold the salt of patients' ",
                           "hashes. Remove it to have a new one made, or ", kGiveOne));
  return salt;
}

// A place that cannot be looked at counts as one that holds a salt: another one would give the
// user's patients other hashes.
bool may_hold_salt(const fs::path& path) {
  std::error_code error;
  return !path.empty() && fs::status(path, error).type() != fs::file_type::not_found;
}

// A header may name a study, too, where its kind of file states facts.
bool may_name_patients(const frames::ExamList& list) {
  if (list.patients.hashed) return true;
  return std::any_of(list.exams.begin(), list.exams.end(), [](const frames::ExamSpec& exam) {
    const auto first = std::find_if(exam.items.begin(), exam.items.end(),
                                    [](const auto& item) { return !item.path.empty(); });
    if (first == exam.items.end()) return false;
    try {
      const frames::SourceKind* kind = frames::detect_kind(frames::SourceFile(first->path));
      return kind != nullptr && kind->facts != nullptr;
    } catch (const DataError&) {
      return false;
    }
  });
}

// Of two processes the first one's salt stays. Returns why it failed, "" when it did not.
std::string store(const fs::path& path, const std::string& salt) {
  try {
    create_folders_durably(path.parent_path());
    AtomicFile file(path, S_IRUSR | S_IWUSR);
    file.append(salt);
    file.finish_if_new();
    return "";
  } catch (const SystemError& error) {
    return error.what();
  }
}

}  // namespace

fs::path patient_salt_path() {
  const fs::path data = absolute_variable("XDG_DATA_HOME"), home = absolute_variable("HOME");
  if (!data.empty()) return data / "coldframe/patient-salt";
  return home.empty() ? fs::path() : home / ".local/share/coldframe/patient-salt";
}

frames::ExamList list_exams_salted(const fs::path& input, frames::ExamListOptions options) {
  std::string& salt = options.reader.patient_salt;
  if (!salt.empty() || options.reader.keep_patient_id) return frames::list_exams(input, options);
  const fs::path path = patient_salt_path();
  const bool known = may_hold_salt(path);
  std::exception_ptr fault;  // matters only where there is a patient to be named
  try {
    if (known) salt = read_salt(path);
  } catch (const DataError&) {
    fault = std::current_exception();
  }
  if (salt.empty()) salt = random_salt();
  frames::ExamList list = frames::list_exams(input, options);
  if (!may_name_patients(list)) return list;
  if (fault) std::rethrow_exception(fault);
  if (known) return list;
  const std::string reason = path.empty() ? "HOME is not set" : store(path, salt);
  if (!reason.empty()) {
    log_warning(concat("the salt of patients' hashes cannot be kept (", reason,
                       "), so the next run would give them other hashes; ", kGiveOne));
    return list;
  }
  log_info(concat("patients are stored as hashes; their salt is in ", path.string()));
  const std::string stored = read_salt(path);
  if (stored == salt) return list;
  salt = stored;  // another process was quicker
  return frames::list_exams(input, options);
}

}  // namespace coldframe::extract
