#include "train_temporal/bundle/model_card.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/report/report.h"

namespace coldframe::bundle {
namespace {

// Parts of a page under their names, in order.
using Parts = std::vector<std::pair<std::string, std::string>>;

void put(Parts& parts, const std::string& name, const std::string& text) {
  const auto found =
      std::ranges::find_if(parts, [&](const auto& part) { return part.first == name; });
  if (found == parts.end())
    parts.emplace_back(name, text);
  else
    found->second = text;
}

// JSON's strings are YAML's.
std::string quoted(const std::string& text) {
  return Json(text).dump();
}

std::string number(const Json& value) {
  return value.is_number() ? fixed(value.get<double>(), 3) : "undefined";
}

// "0.912 [0.854, 0.951]"
std::string interval(const Json& estimate) {
  const std::string value = number(estimate.at("value"));
  if (!estimate.at("low").is_number()) return value;
  return concat(value, " [", number(estimate.at("low")), ", ", number(estimate.at("high")), "]");
}

// "95 %"
std::string level(const Json& target) {
  return concat(fixed(100 * target.at("interval").at("level").get<double>(), 0), " %");
}

std::string title(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

// A name from the data as Markdown's own text: nothing in it is HTML, a link or the end of a cell
// or a line. HTML numbers characters in decimals.
std::string plain(const std::string& text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool link = c == ']' && text.substr(i + 1, 1) == "(";
    if (c < ' ' || link || std::string_view("&<>`|").find(text[i]) != std::string_view::npos)
      shown += concat("&#", static_cast<int>(c), ";");
    else
      shown += text[i];
  }
  return shown;
}

std::string plain(const Json& name) {
  return plain(name.get<std::string>());
}

// A name in code's letters, in which Markdown knows no way to write some characters.
std::string code(const std::string& name) {
  const std::string shown = plain(name);
  return shown == name ? concat("`", name, "`") : shown;
}

std::string code(const Json& name) {
  return code(name.get<std::string>());
}

Parts front_matter(const Json& facts) {
  return {{"license", concat(" ", quoted(facts.at("license")), "\n")},
          {"library_name", " coldframe\n"},
          {"tags", "\n- medical-imaging\n- vision-transformer\n- temporal-model\n- monai\n"}};
}

std::string classes_text(const Json& target) {
  std::vector<std::string> names;
  for (const Json& name : target.at("classes")) names.push_back(plain(name));
  if (target.contains("event")) return concat("the time to the event ", code(target.at("event")));
  return names.empty() ? "a number" : join(names, ", ");
}

// "`FA`, `ICGA`"
std::string names_in(const Json& facts, const char* key) {
  std::string text;
  for (const Json& name : facts.value(key, Json::array()))
    text += concat(text.empty() ? "" : ", ", code(name));
  return text;
}

// Says what an exam must bring.
std::string inputs_text(const Json& facts) {
  std::string text;
  if (facts.contains("streams"))
    text +=
        concat("\nFrames are of the streams ", names_in(facts, "streams"), ", which the frame ",
               "column ", code(facts.at("stream_column")), " names; an exam may ", "lack some.\n");
  if (facts.contains("visits"))
    text += concat("\nAn exam is read behind the earlier ones of its patient, in the order of ",
                   code(facts["visits"]), ".\n");
  if (facts.contains("covariates"))
    text += concat("\nBeside its frames it takes of each exam: ", names_in(facts, "covariates"),
                   ". The models hold the name of every category of these that their training ",
                   "had, be it of one exam.\n");
  return text;
}

std::string intended_use(const Json& facts) {
  std::string text =
      "Research. It is not a medical device, and nobody has shown that it helps a patient.\n\n";
  for (const Json& target : facts.at("targets"))
    text += concat("- ", code(target.at("name")), " (", target.at("task").get<std::string>(),
                   target.at("per_frame").get<bool>() ? ", of each frame" : "",
                   "): ", classes_text(target), "\n");
  return concat(text, inputs_text(facts),
                "\nIt takes sequences of frames of one exam. `coldframe predict --bundle` ",
                "decodes, prepares and reads them as in the training.\n");
}

std::string data_text(const Json& facts, const Json& metrics) {
  std::string text;
  for (const Json& target : targets_of(metrics))
    text += concat("- ", code(target.at("target")), ": ",
                   plural(target.at("exams").get<std::size_t>(), "exam"), " of ",
                   plural(target.at("patients").get<std::size_t>(), "patient"), "\n");
  const Json& training = facts.at("training");
  for (const auto& [target, classes] : training.at("exams_per_class").items())
    for (const auto& [name, exams] : classes.items())
      text += concat("- ", code(target), " = ", plain(name), ": ",
                     plural(exams.get<std::size_t>(), "exam"), "\n");
  if (training.at("frames").at(1) > 0)
    text += concat("- ", training["frames"].at(0).get<int>(), " to ",
                   training["frames"].at(1).get<int>(), " frames in an exam\n");
  return text;
}

std::string results_text(const Json& facts, const Json& metrics) {
  const Json& training = facts.at("training");
  const std::string taken = temporal::fits_text(training);
  std::string text = concat(
      "On held-out patients (", plural(training.at("folds").get<std::size_t>(), "fold"), ", ",
      plural(training.at("seeds").get<std::size_t>(), "seed"), "), with ",
      level(targets_of(metrics).front()), " intervals by patient. Predictions are the mean of ",
      plural(facts.at("models").get<std::size_t>(), "model"),
      taken.empty() ? "" : concat(" (", taken, ")"),
      ", each fitted without the patients of its own test part.\n");
  for (const Json& target : targets_of(metrics)) {
    text += concat("\n| ", plain(target.at("target")), " | value |\n| --- | --- |\n");
    for (const auto& [key, metric] : target.at("models").at(0).at("metrics").items())
      text += concat("| ", title(key), " | ", interval(primary(metric)), " |\n");
  }
  return text;
}

std::string controls_text(const Json& metrics) {
  std::string text;
  for (const Json& target : targets_of(metrics))
    for (const Json& line : target.at("verdict")) text += concat("- ", plain(line), "\n");
  return text.empty() ? "None were fitted.\n" : text;
}

std::string limits_text() {
  return "- Nothing is known of other scanners, sites and patients than those of the training: "
         "`coldframe evaluate --bundle` measures it on yours.\n"
         "- Thresholds were chosen on the training's share of classes.\n"
         "- Exams of the training cannot be recognised: the bundle holds no ids. Predictions of "
         "them look better than the model is.\n";
}

std::string use_text(const Json& facts) {
  return concat("```\ncoldframe predict --bundle THIS --input exams --out predictions.csv\n```\n\n",
                "Made by Coldframe ", facts.at("coldframe").get<std::string>(), " with LibTorch ",
                facts.at("torch").get<std::string>(),
                ". `bundle.json` has the recipe of features, ",
                "classes and thresholds, `SHA256SUMS` the checksums.\n");
}

// Takes lines up to the next one that `begins` a part; what lies before the first is under "".
template <typename Begins>
Parts divide(const std::string& text, const Begins& begins) {
  Parts parts = {{"", ""}};
  for (const std::string& line : split(text, '\n')) {
    if (const auto [name, rest] = begins(line); !name.empty())
      parts.emplace_back(name, rest);
    else
      parts.back().second += line + "\n";
  }
  return parts;
}

// "key: value" at the beginning of a line.
std::pair<std::string, std::string> key_of(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos || colon == 0 || line[0] == ' ' || line[0] == '-') return {};
  return {line.substr(0, colon), line.substr(colon + 1) + "\n"};
}

std::pair<std::string, std::string> heading_of(const std::string& line) {
  if (!line.starts_with("## ")) return {};
  return {trim(line.substr(3)), ""};
}

struct Page {
  Parts keys;  // of the front matter
  std::string body;
};

// Lines may end as on Windows.
Page read_page(std::string text) {
  constexpr std::string_view kFence = "---\n", kEnd = "\n---\n";
  std::erase(text, '\r');
  text += '\n';
  const std::size_t end = text.find(kEnd);
  if (!text.starts_with(kFence) || end == text.npos) return {{}, text};
  Page page{{}, text.substr(end + kEnd.size())};
  for (const auto& [key, value] : divide(text.substr(kFence.size(), end - kFence.size()), key_of))
    if (!key.empty()) put(page.keys, key, value);
  return page;
}

void complete(const std::string& more, Parts& keys, Parts& sections) {
  const Page page = read_page(more);
  for (const auto& [key, value] : page.keys) put(keys, key, value);
  for (const auto& [name, text] : divide(trim(page.body), heading_of))
    if (!name.empty() || !trim(text).empty()) put(sections, name, trim(text) + "\n");
}

}  // namespace

std::string stated_license(const std::string& more) {
  for (const auto& [key, value] : read_page(more).keys) {
    if (key != "license") continue;
    std::string word = trim(value.substr(0, value.find(" #")));
    for (const char quote : {'"', '\''})
      if (word.size() > 1 && word.front() == quote && word.back() == quote)
        word = word.substr(1, word.size() - 2);
    if (word.empty() || word.find_first_of(" \t\n[]{}\"'") != word.npos)
      throw ConfigError(concat("--card: license: ", trim(value),
                               " is not one word of the Hugging Face hub, as apache-2.0"));
    return word;
  }
  return "";
}

const Json& primary(const Json& metric) {
  return metric.at(metric.at("primary").get<std::string>());
}

Json targets_of(const Json& metrics) {
  return metrics.contains("targets") ? metrics["targets"] : Json::array({metrics});
}

std::string model_card(const Json& facts, const Json& metrics, const std::string& more) {
  Parts keys = front_matter(facts);
  Parts sections = {{"Intended use", intended_use(facts)},
                    {"Data", data_text(facts, metrics)},
                    {"Results", results_text(facts, metrics)},
                    {"Controls", controls_text(metrics)},
                    {"Limits", limits_text()},
                    {"Use", use_text(facts)}};
  complete(more, keys, sections);
  std::string text = "---\n";
  for (const auto& [key, value] : keys) text += concat(key, ":", value);
  text += concat("---\n\n# ", plain(facts.at("name")), "\n");
  for (const auto& [name, section] : sections)
    text += concat("\n", name.empty() ? "" : concat("## ", name, "\n\n"), section);
  return text;
}

}  // namespace coldframe::bundle
