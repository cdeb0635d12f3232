// Whether a cache and a run store patients alike: under two names, one patient could lie on both
// sides of a split.
#pragma once

#include <filesystem>
#include <string>

#include "cache/store/reader.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::extract {

// The recipe's note: "as named", "hashes of salt 3fa91c (NFKC_Casefold)"; "" of an input that names
// no patient.
std::string patients_note(const frames::PatientNames& patients);

// CacheError when the cached exams' patients are stored otherwise, with what to do. Caches made
// before the note was there show by their patients which of the two they hold.
void check_patients(const frames::PatientNames& patients, const cache::CacheReader& cached,
                    const std::filesystem::path& path);

}  // namespace coldframe::extract
