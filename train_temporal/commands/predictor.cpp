#include "train_temporal/commands/predictor.h"

#include "common/text/text.h"
#include "common/torch/device.h"
#include "train_temporal/run/apply/known_exams.h"
#include "train_temporal/run/apply/shown_times.h"
#include "train_temporal/run/auto_device.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

namespace {

// The words of `extract` that the options stand for.
std::vector<std::string> extraction_words(const ApplyOptions& options) {
  std::vector<std::string> words = options.extraction;
  words.insert(words.end(), {"--input", options.input, "--device", options.device});
  if (options.threads > 0) words.insert(words.end(), {"--threads", concat(options.threads)});
  if (!options.maps.empty()) words.insert(words.end(), {"--cut", "0"});
  return words;
}

std::optional<bundle::Bundle> bundle_of(const ApplyOptions& options) {
  if (options.bundle.empty()) return std::nullopt;
  return bundle::Bundle(options.bundle);
}

std::optional<bundle::RawExams> raw_exams_of(const std::optional<bundle::Bundle>& bundle,
                                             const ApplyOptions& options) {
  if (options.input.empty()) return std::nullopt;
  return bundle::RawExams(*bundle, extraction_words(options));
}

torch::Device resolved(const ApplyOptions& options) {
  const torch::Device device = resolve_device(options.device);
  if (options.threads > 0) set_torch_threads(static_cast<int>(options.threads));
  return device;
}

}  // namespace

Predictor::Predictor(const ApplyOptions& options)
    : bundle_(bundle_of(options)),
      folder_(bundle_ ? bundle_->folder() : options.run),
      other_patients_(options.other_patients),
      without_times_(options.without_times),
      raw_(raw_exams_of(bundle_, options)),
      device_(resolved(options)),
      ensemble_(model_files(folder_), options.data.labels),
      cache_(options.data.cache) {
  ensemble_.set_horizons(options.data.horizons);
  const bool explains = !options.explain.empty() || !options.maps.empty();
  tries_devices_ = options.device == "auto" && device_.is_cuda() && !explains;
}

const torch::Device& Predictor::device_for(const SequenceReader& cache,
                                           const std::vector<std::size_t>& exams) {
  if (tries_devices_ && !ensemble_.card().tuned)
    device_ = quickest_for(ensemble_, cache, exams, device_);
  return device_;
}

std::filesystem::path Predictor::weights(const std::filesystem::path& given) const {
  if (!bundle_) return given;
  const Json& backbone = bundle_->facts().at("backbone");
  if (!backbone.contains("file")) return {};  // random ones
  return bundle_->file(backbone["file"].get<std::string>());
}

const std::filesystem::path& Predictor::features() {
  if (raw_) cache_ = raw_->extract();
  return cache_;
}

std::vector<std::string> Predictor::warnings_of(const SequenceReader& cache,
                                                const std::vector<std::size_t>& exams) {
  const std::string times = check_times(ensemble_, cache, exams, without_times_);
  std::vector<std::string> said = ensemble_.unlearnt_inputs(cache, exams);
  if (!times.empty()) said.push_back(times);
  return said;
}

std::optional<std::size_t> Predictor::count_known(std::span<const cache::ExamInfo> exams,
                                                  const std::vector<std::string>& patients,
                                                  const std::vector<std::size_t>& used) const {
  if (other_patients_) return 0;
  if (bundle_) return std::nullopt;
  return temporal::count_known(folder_, exams, patients, used);
}

Json failures_json(const SequenceReader& cache) {
  Json failures = Json::array();
  for (const cache::Failure& failure : cache.failures())
    failures.push_back(
        {{"exam", failure.exam}, {"source", failure.source}, {"reason", failure.reason}});
  return failures;
}

}  // namespace coldframe::temporal
