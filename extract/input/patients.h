// Patients as a cache stores them, by one rule for headers, paths and manifests.
#pragma once

#include <filesystem>
#include <string>

#include "extract/decode/source.h"
#include "extract/input/exam_list.h"

namespace coldframe::frames {

std::size_t count_patients(const ExamList& list);

// "stored as hashes (…)", for a line that begins with how many there are.
std::string patients_text(const PatientNames& patients);

// Stores the list's patients so, each in one spelling (spelling.h), and notes what a person should
// know of it. ConfigError where it is unclear whether two ids are one person's.
void store_patients(ExamList& list, const ReaderOptions& options);

}  // namespace coldframe::frames

// The salt of patients' hashes when nobody gave one.
//
// Hospitals' patient numbers are short enough to be tried out one by one, so a hash hides them only
// behind something that is not published with it. The salt is therefore random, made once per user
// and kept in a file of theirs alone, apart from every cache: a patient has the same hash in all of
// the user's caches, now and later, and a cache that is passed on does not tell it.

namespace coldframe::extract {

// $XDG_DATA_HOME/coldframe/patient-salt, else ~/.local/share/coldframe/patient-salt; empty when
// neither variable names an absolute path.
std::filesystem::path patient_salt_path();

// frames::list_exams with that salt where `options.reader` has none. The file is made only when
// the input names a patient, or holds files whose headers may name a study; where it cannot be, a
// warning says what to do. DataError when the file cannot be read.
frames::ExamList list_exams_salted(const std::filesystem::path& input,
                                   frames::ExamListOptions options);

}  // namespace coldframe::extract
