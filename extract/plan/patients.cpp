#include "extract/plan/patients.h"

#include <algorithm>
#include <string_view>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::extract {
namespace {

constexpr std::string_view kAsNamed = "as named", kHashes = "hashes",
                           kFolded = " (NFKC_Casefold)",  // of names in their plain spelling
    kNumbersAlike = ", zeros of numbers aside";

bool looks_hashed(const std::string& patient) {
  constexpr std::size_t kDigits = 16;
  return patient.size() == kDigits &&
         patient.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// "": there is no patient. A cache that was begun without any has no note.
std::string note_of(const cache::CacheReader& cached) {
  const std::string note = cached.recipe().notes.value("patients", "");
  if (!note.empty()) return note;
  std::string found;
  for (const cache::ExamInfo& exam : cached.exams()) {
    if (exam.patient.empty()) continue;
    if (!looks_hashed(exam.patient)) return std::string(kAsNamed);
    found = kHashes;
  }
  return found;
}

std::string example_of(const cache::CacheReader& cached) {
  const auto first =
      std::ranges::find_if(cached.exams(), [](const auto& exam) { return !exam.patient.empty(); });
  return first == cached.exams().end() ? "" : concat(" (such as '", first->patient, "')");
}

}  // namespace

std::string patients_note(const frames::PatientNames& patients) {
  if (!patients.hashed) return "";
  if (!*patients.hashed) return std::string(kAsNamed);
  return concat(kHashes, " of salt ", patients.salt, kFolded,
                patients.numbers_alike ? kNumbersAlike : "");
}

void check_patients(const frames::PatientNames& patients, const cache::CacheReader& cached,
                    const std::filesystem::path& path) {
  const std::string before = note_of(cached), now = patients_note(patients);
  if (before.empty() || now.empty() || before == now) return;
  const bool same_kind = before.starts_with(kHashes) && now.starts_with(kHashes);
  if (same_kind && (before == kHashes || now == kHashes)) return;  // a salt that nobody noted
  const std::string cache = path.string();
  const std::string anew = "; or give another --out, to which all is extracted again";
  if (same_kind && (before == concat(now, kNumbersAlike) || now == concat(before, kNumbersAlike)))
    throw CacheError(concat("'", cache,
                            before.size() > now.size()
                                ? "' was made with --equal-numbers same: give it here, too"
                                : "' was made without --equal-numbers same: leave it out",
                            ", or one person would be two", anew));
  if (same_kind)
    throw CacheError(concat(
        "'", cache, "' stores patients as ", before, ", and this run as ", now,
        ": give the salt that the cache was made with (--patient-salt or COLDFRAME_PATIENT_SALT)",
        anew));
  if (before == kAsNamed)
    throw CacheError(concat("'", cache, "' stores patients as they are named", example_of(cached),
                            ", and this run as hashes: give --keep-patient-id to go on with their "
                            "names",
                            anew));
  throw CacheError(concat("'", cache, "' stores patients as hashes", example_of(cached),
                          ", and this run as they are named: leave out --keep-patient-id", anew));
}

}  // namespace coldframe::extract
