#include "extract/plan/patient_salt.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "extract/frames/source.h"

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
