// Names exams after what DICOM headers say of them, so that a name depends neither on the place of
// the files nor on the exams beside them.
#pragma once

#include <string>
#include <string_view>

namespace coldframe::frames::dicom {

// "US-7-3fa91c02be": modality and number of the series, where they are known and plain, then the
// first `digits` of the UID's SHA-256. Patients, dates and the UID itself stay out of it.
std::string exam_id(std::string_view modality, std::string_view series_number, std::string_view uid,
                    std::size_t digits = 10);

// "study-3fa91c02be"
std::string study_id(std::string_view uid, std::size_t digits = 10);

}  // namespace coldframe::frames::dicom
