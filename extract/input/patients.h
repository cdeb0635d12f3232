// Patients: one spelling, hashes with a salt, and what a person should know of them.
#pragma once

#include <filesystem>
#include <string>

#include "extract/decode/source.h"
#include "extract/input/exam_list.h"

namespace coldframe::frames {

// Normalizes patient ids for storage in a cache, by one rule for headers, paths and manifests.

std::size_t count_patients(const ExamList& list);

// "stored as hashes (…)", for a line that begins with the number of patients.
std::string patients_text(const PatientNames& patients);

// Replaces the list's patients by their stored form, each in one spelling (spelling.h), and sets
// ExamList::patients. ConfigError if two ids may or may not denote the same person.
void store_patients(ExamList& list, const ReaderOptions& options);

}  // namespace coldframe::frames

// The default salt of patient hashes.
//  Hospital patient numbers are short enough for a brute-force search, so a hash hides them only
// with a secret that is not published with it. The salt is therefore random, generated once per
// user and kept in a private file outside all caches: a patient has the same hash in all of the
// user's caches, and sharing a cache does not reveal the salt.

namespace coldframe::extract {

// $XDG_DATA_HOME/coldframe/patient-salt, else ~/.local/share/coldframe/patient-salt; empty when
// neither variable names an absolute path.
std::filesystem::path patient_salt_path();

// frames::list_exams with that salt if `options.reader` has none. Creates the file only if the
// input names a patient or has files whose headers may name a study; if that fails, a warning
// states the remedy. DataError if the file cannot be read.
frames::ExamList list_exams_salted(const std::filesystem::path& input,
                                   frames::ExamListOptions options);

}  // namespace coldframe::extract
