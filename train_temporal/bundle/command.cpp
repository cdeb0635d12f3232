#include "train_temporal/bundle/command.h"

#include <iostream>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/cli/verbs.h"
#include "common/files/publish/publish.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/bundle/make.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/report/report.h"

namespace coldframe::bundle {
namespace {

namespace po = boost::program_options;

Json facts_json(const Bundle& bundle) {
  Json json = bundle.facts();
  json["digest"] = bundle.digest();
  json["files"] = Json::array();
  for (const BundleFile& file : bundle.files())
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return json;
}

// ", learnt 'a' and 'b' as 'c'"
std::string changes_text(const Json& target) {
  const auto changes = temporal::class_changes_from_json(target);
  const auto quoted = [](const std::string& name) { return concat("'", name, "'"); };
  return changes.empty() ? "" : concat(", learnt ", temporal::text_of(changes, quoted));
}

std::string facts_text(const Bundle& bundle) {
  const Json& facts = bundle.facts();
  const auto word = [](const Json& json, const char* key) { return shown(json.at(key)); };
  const Json& training = facts.at("training");
  const std::string taken = temporal::fits_text(training);
  std::string text =
      concat("bundle     ", word(facts, "name"), ", licence ", word(facts, "license"), ", digest ",
             bundle.digest().substr(0, 12), "…\nmodels     ", word(facts, "models"), " × ",
             word(training, "model"), taken.empty() ? "" : concat(" (", taken, ")"),
             ", trained by Coldframe ", word(training, "coldframe"), "\n");
  for (const Json& target : facts.at("targets"))
    text += concat("target     ", word(target, "name"), ", ", word(target, "task"),
                   target.at("classes").empty() ? "" : ": ",
                   target["classes"].empty() ? "" : target["classes"].dump(), changes_text(target),
                   target.contains("threshold")
                       ? concat(", threshold ", fixed(target["threshold"].get<double>(), 4))
                       : "",
                   "\n");
  const auto line = [&](const std::string& name, const Json& names) {
    std::vector<std::string> words;
    for (const Json& one : names) words.push_back(one.is_string() ? one.get<std::string>() : "?");
    if (!words.empty()) text += concat(padded(name, 11), join(words, ", "), "\n");
  };
  line("streams", facts.value("streams", Json::array()));
  line("visits", facts.contains("visits") ? Json::array({facts["visits"]}) : Json::array());
  line("covariates", facts.value("covariates", Json::array()));
  const Json& backbone = facts.at("backbone");
  text +=
      concat("backbone   ", word(backbone, "kind"), ", recipe ",
             word(facts, "feature_digest").substr(0, 12), "…",
             backbone.contains("license") ? ", licence " + word(backbone, "license") : "", "\n");
  std::uint64_t bytes = 0;
  for (const BundleFile& file : bundle.files()) bytes += file.bytes;
  return concat(text, "files      ", bundle.files().size(), ", ", human_bytes(bytes), "\n");
}

int run_make(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  MakeOptions make;
  std::string weights, out, mask, card;
  po::options_description more;
  auto add = more.add_options();
  add("weights", po::value(&weights)->value_name("FILE|FOLDER"),
      "the weights that the run's cache was extracted with, of the recipe's SHA-256");
  add("out", po::value(&out)->value_name("BUNDLE"), "the bundle to make");
  add("mask", po::value(&mask)->value_name("FILE"), "the --mask of the extraction, if it had one");
  add("name", po::value(&make.name)->value_name("NAME"), "in the model card (default: OUT's)");
  add("license", po::value(&make.license)->value_name("ID")->default_value(make.license),
      "as the Hugging Face hub spells it, e.g. apache-2.0, cc-by-nc-4.0");
  add("card", po::value(&card)->value_name("FILE.md"),
      "front matter and sections that replace those of README.md, or follow them");
  add("overwrite", po::bool_switch(&make.overwrite), "replace a bundle of the same name");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  if (out.empty()) throw ConfigError("--out is missing: name the bundle to make");
  make.run = options.words.front();
  make.weights = weights;
  make.out = without_trailing_slash(out);
  make.mask = mask;
  make.card = card;
  make_bundle(make);
  const Bundle made(make.out);
  std::cout << (options.json ? facts_json(made).dump(2) + "\n" : facts_text(made));
  return static_cast<int>(ExitCode::kDone);
}

int run_show(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(verb, arguments, options)) return 0;
  const Bundle bundle(options.words.front());
  std::cout << (options.json ? facts_json(bundle).dump(2) + "\n" : facts_text(bundle));
  return static_cast<int>(ExitCode::kDone);
}

int run_verify(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(verb, arguments, options)) return 0;
  const std::filesystem::path folder = options.words.front();
  Checksums sums = checksums_in(folder);
  const auto faults = find_faults(folder, sums.files);
  if (options.json)
    std::cout << Json{{"files", sums.files.size()}, {"findings", faults}}.dump(2) << "\n";
  else
    for (const std::string& fault : faults) std::cout << fault << "\n";
  log_info(concat(plural(sums.files.size(), "file"), " checked: ",
                  faults.empty() ? "nothing is wrong" : plural(faults.size(), "finding")));
  return static_cast<int>(faults.empty() ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

// A line for each key of bundle.json and each other file that differs.
std::vector<std::string> differences(const Bundle& a, const Bundle& b) {
  auto lines = cache::differences(a.facts(), b.facts(), {"A has", "B"});
  for (const BundleFile& file : a.files()) {
    if (file.name == kFactsFile) continue;
    const auto other = std::ranges::find(b.files(), file.name, &BundleFile::name);
    if (other == b.files().end())
      lines.push_back(concat(file.name, ": in A only"));
    else if (other->sha256 != file.sha256)
      lines.push_back(concat(file.name, ": differs"));
  }
  for (const BundleFile& file : b.files())
    if (!a.has(file.name)) lines.push_back(concat(file.name, ": in B only"));
  return lines;
}

int run_diff(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(verb, arguments, options)) return 0;
  const auto lines = differences(Bundle(options.words[0]), Bundle(options.words[1]));
  if (options.json)
    std::cout << Json{{"same", lines.empty()}, {"differences", lines}}.dump(2) << "\n";
  else
    for (const std::string& line : lines) std::cout << line << "\n";
  return static_cast<int>(lines.empty() ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

extern const Command kBundle;
const Verb kMake{
    &kBundle,
    "make",
    "RUN",
    "runs/label --weights vit.safetensors --out model.bundle",
    "make a bundle of a finished run: weights, recipe, models of all folds, figures, model card",
    run_make};
const Verb kShow{&kBundle, "show", "BUNDLE", "model.bundle", "say what a bundle holds", run_show};
const Verb kVerify{&kBundle,
                   "verify",
                   "BUNDLE",
                   "model.bundle",
                   "hold every byte against the checksums; exit code 1 with findings",
                   run_verify};
const Verb kDiff{&kBundle,
                 "diff",
                 "A B",
                 "old.bundle new.bundle",
                 "list what differs; exit code 1 where something does",
                 run_diff};
constexpr const Verb* kVerbs[] = {&kMake, &kShow, &kVerify, &kDiff};
const Command kBundle{"bundle",
                      "Usage: coldframe bundle VERB … [options]\n\n"
                      "A finished run as one folder that predicts by itself.",
                      "`coldframe bundle VERB --help` says more; `coldframe predict --bundle` "
                      "and `coldframe evaluate --bundle` use one.",
                      kVerbs};

}  // namespace

int run_bundle(const std::vector<std::string>& arguments) {
  return run_verb(kBundle, arguments);
}

}  // namespace coldframe::bundle
