// Declares what the registry (registry.cpp) knows of each kind of file; one pair of functions per
// reader.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "extract/frames/source.h"

namespace coldframe::frames {

bool detect_image(std::string_view head, const std::filesystem::path& path);
std::unique_ptr<Source> open_image(const std::filesystem::path& path, const ReaderOptions& options);

bool detect_animated_webp(std::string_view head, const std::filesystem::path& path);
std::unique_ptr<Source> open_animated_webp(const std::filesystem::path& path,
                                           const ReaderOptions& options);

bool detect_nifti(std::string_view head, const std::filesystem::path& path);
std::unique_ptr<Source> open_nifti(const std::filesystem::path& path, const ReaderOptions& options);

bool detect_npy(std::string_view head, const std::filesystem::path& path);
std::unique_ptr<Source> open_npy(const std::filesystem::path& path, const ReaderOptions& options);

bool detect_stack(std::string_view head, const std::filesystem::path& path);  // of TIFF pages
std::unique_ptr<Source> open_stack(const std::filesystem::path& path, const ReaderOptions& options);

bool detect_video(std::string_view head, const std::filesystem::path& path);
std::unique_ptr<Source> open_video(const std::filesystem::path& path, const ReaderOptions& options);

bool detect_dicom(std::string_view head, const std::filesystem::path& path);
std::unique_ptr<Source> open_dicom(const std::filesystem::path& path, const ReaderOptions& options);
SourceFacts dicom_facts(const std::filesystem::path& path, const ReaderOptions& options);

}  // namespace coldframe::frames
