// A folder of files for each exam: "000012-E0012/007.png".
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe {

// `place`: the exam's among those that are written. Of its name letters, digits, '.', '-' and '_'
// of ASCII stay, since it may be any text.
std::string exam_folder_name(std::size_t place, std::string_view exam);
// "007.png"; `end`: what follows the number.
std::string frame_file_name(std::size_t slot, std::string_view end);

// Within a folder that is published as a whole, which syncs it; SystemError when it cannot be
// written.
void write_exam_file(const std::filesystem::path& path, std::string_view bytes);

// ConfigError when anything but folders of exams with files of these extensions, and the file
// `page`, lies in `folder`; `what` names one of them.
void require_exam_files(const std::filesystem::path& folder,
                        const std::vector<std::string>& extensions, std::string_view what,
                        std::string_view page = "");

}  // namespace coldframe
