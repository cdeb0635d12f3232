// Patients as a cache stores them, by one rule for headers, paths and manifests.
#pragma once

#include <string>

#include "extract/frames/input/exam_list.h"
#include "extract/frames/reader_options.h"

namespace coldframe::frames {

// What stands for a name that tells who somebody is: a hash of its plain spelling (spelling.h) with
// the salt, or with --keep-patient-id the name itself, in UTF-8. "" stays "".
std::string stored_identity(const std::string& name, const ReaderOptions& options);

std::size_t count_patients(const ExamList& list);

// "stored as hashes (…)", for a line that begins with how many there are.
std::string patients_text(const PatientNames& patients);

// Stores the list's patients so, each in one spelling (spelling.h), and notes what a person should
// know of it. ConfigError where it is unclear whether two ids are one person's.
void store_patients(ExamList& list, const ReaderOptions& options);

}  // namespace coldframe::frames
