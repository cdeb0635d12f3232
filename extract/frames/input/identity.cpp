#include "extract/frames/input/identity.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "common/files/fingerprint.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

constexpr std::size_t kHashDigits = 16, kSaltDigits = 6;

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

// Hashes of two spellings of one person have nothing in common. Log files keep no names that a
// cache hides.
void unify_patients(ExamList& list, const ReaderOptions& options) {
  std::vector<std::string> patients;
  for (const ExamSpec& exam : list.exams) patients.push_back(exam.patient);
  const std::string changes = unify_spelling(patients);
  std::size_t exams = 0;
  for (std::size_t i = 0; i < patients.size(); ++i) {
    exams += list.exams[i].patient != patients[i];
    list.exams[i].patient = std::move(patients[i]);
  }
  if (!changes.empty())
    list.warnings.push_back(
        concat("patients whose ids differ in case or spaces alone are taken as one person, ",
               options.keep_patient_id ? as_utf8(changes) : concat("in ", plural(exams, "exam")),
               "; if they are different people, give them ids that differ more"));
}

}  // namespace

std::string as_utf8(const std::string& text) {
  if (is_valid_utf8(text)) return text;
  std::string utf8;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xC0 | byte >> 6);
      utf8 += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return utf8;
}

std::string stored_identity(const std::string& name, const ReaderOptions& options) {
  if (name.empty() || options.keep_patient_id) return as_utf8(name);
  return sha256_hex(options.patient_salt + name).substr(0, kHashDigits);
}

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
  unify_patients(list, options);
  for (ExamSpec& exam : list.exams) {
    if (exam.patient.empty()) continue;
    list.patients.hashed = !options.keep_patient_id;
    exam.patient = stored_identity(exam.patient, options);
  }
  if (list.patients.hashed.value_or(false))
    list.patients.salt =
        sha256_hex("a salt of patients: " + options.patient_salt).substr(0, kSaltDigits);
}

}  // namespace coldframe::frames
