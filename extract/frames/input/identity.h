// Patients as a cache stores them, by one rule for headers, paths and manifests.
#pragma once

#include <string>

#include "extract/frames/input/exam_list.h"
#include "extract/frames/reader_options.h"

namespace coldframe::frames {

// What stands for a name that tells who somebody is: a hash of it with the salt, or with
// --keep-patient-id the name itself, in UTF-8. "" stays "".
std::string stored_identity(const std::string& name, const ReaderOptions& options);

// Bytes that are no UTF-8 are taken for ISO 8859-1.
std::string as_utf8(const std::string& text);

std::size_t count_patients(const ExamList& list);

// "stored as hashes (…)", for a line that begins with how many there are.
std::string patients_text(const PatientNames& patients);

// Stores the list's patients so, each in one spelling (spelling.h), and notes what a person should
// know of it.
void store_patients(ExamList& list, const ReaderOptions& options);

}  // namespace coldframe::frames
