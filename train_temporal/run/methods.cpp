#include "train_temporal/run/methods.h"

#include <algorithm>

#include "common/text/text.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/report/report.h"
#include "train_temporal/report/report_text.h"

namespace coldframe::temporal {

namespace {

std::string json_text(const Json& value) {
  if (value.is_number_float()) return exact(value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A name that comes from data.
std::string quoted(const Json& name) {
  std::string text = printable(json_text(name));
  std::ranges::replace(text, '`', '\'');
  return "`" + text + "`";
}

std::string quoted_list(const Json& names) {
  std::vector<std::string> words;
  for (const Json& name : names) words.push_back(quoted(name));
  return join(words, ", ");
}

// "resize shortest, mean 0.5 0.5 0.5" of an object of values and lists.
std::string settings(const Json& object) {
  std::vector<std::string> words;
  for (const auto& [key, value] : object.items()) {
    std::string text = json_text(value);
    if (value.is_array()) {
      std::vector<std::string> parts;
      for (const Json& part : value) parts.push_back(json_text(part));
      text = join(parts, " ");
    }
    if (value.is_object()) text = concat("(", settings(value), ")");
    if (text.empty()) continue;
    std::string name = key;
    std::ranges::replace(name, '_', ' ');
    words.push_back(concat(name, " ", printable(text)));
  }
  return join(words, ", ");
}

// What summary.json says of each target.
Json results_of(const Json& summary) {
  return summary.contains("targets") ? summary["targets"] : Json::array({summary});
}

std::string data_paragraph(const Json& config, const Json& result) {
  std::string text = "## Data\n\n";
  if (const Json flow = result.value("flow", Json()); flow.is_object()) {
    std::vector<std::string> steps;
    for (const auto& [step, count] : flow.items()) {
      std::string name = step;
      std::ranges::replace(name, '_', ' ');
      if (step == "found" || step == "used" || count != 0)
        steps.push_back(concat(count.dump(), " ", name));
    }
    text += concat("Exams: ", join(steps, ", "), ". ");
  }
  text += concat("Patients: ", result.at("patients").dump(), ".\n\n");
  for (const Json& target : config.at("targets")) {
    text += concat("- Target ", quoted(target.at("name")), ", ", json_text(target.at("task")),
                   target.value("per_frame", false) ? " for each frame" : "");
    if (const Json classes = target.value("classes", Json::array()); !classes.empty())
      text += concat(": ", quoted_list(classes));
    const auto changes = class_changes_from_json(target);
    if (!changes.empty())
      text += concat("; learnt ",
                     text_of(changes, [](const std::string& name) { return quoted(Json(name)); }));
    text += "\n";
  }
  return text;
}

std::string backbone_sentence(const Json& features) {
  if (!features.contains("backbone"))
    return concat("The features were made elsewhere, or are those of several streams: ",
                  settings(features), ".");
  const Json& backbone = features["backbone"];
  std::string text = "A frozen backbone embedded each frame once. It is ";
  const std::string kind = json_text(backbone.value("kind", Json("")));
  if (const Json shape = backbone.value("architecture", Json()); shape.is_object()) {
    text += concat("a vision transformer (Dosovitskiy et al., 2021) with ",
                   json_text(shape.value("depth", Json())), " blocks, width ",
                   json_text(shape.value("width", Json())), " and patches of ",
                   json_text(shape.value("patch", Json())), " pixels");
  } else {
    text += "a compiled module";
  }
  if (backbone.contains("sha256"))
    text += concat(", of the weights with SHA-256 `", json_text(backbone["sha256"]), "`");
  if (kind == "random")
    text += concat(", with random weights (seed ", backbone["seed"].dump(), ")");
  if (backbone.contains("pooling")) text += concat(", pooling ", json_text(backbone["pooling"]));
  return text + ".";
}

std::string features_paragraph(const Json& config) {
  const Json& recipe = config.at("recipe");
  const Json& features = recipe.at("features");
  std::string text = "## Features\n\n" + backbone_sentence(features);
  for (const char* part : {"preprocessing", "reading"})
    if (features.contains(part))
      text += concat(
          part == std::string("reading") ? " Files: " : " Frames: ", settings(features[part]), ".");
  return text + concat(" Stored: ", settings(recipe.at("storage")), ".\n");
}

// False where each fit is a summary.
bool has_trained_fits(const Json& config, const Json& result) {
  const Json taken = main_model_of(result).value("taken", Json::object());
  bool trained = taken.empty() && config.at("name") != kSummaryModel;
  for (const auto& [model, fits] : taken.items())
    trained = trained || (model != kSummaryModel && fits > 0);
  return trained;
}

std::string choice_sentence(const Json& result) {
  const std::string taken = fits_text(main_model_of(result));
  if (taken.empty()) return "";
  return concat(
      " Beside it each fit tried a ridge-penalised linear model on one summary of the frames over "
      "time, its kind and penalty chosen by cross-validation of the training and validation "
      "parts, and took this where it had found something and the other was not clearly better on "
      "the validation part. Fits by what they took: ",
      taken, ".");
}

std::string search_sentence(const Json& config, const Json& result) {
  const Json search = config.value("search", Json::array());
  std::vector<Json> taken;
  for (const Json& fold : result.value("folds", Json::array()))
    if (fold.contains("setting")) taken.push_back(fold["setting"]);
  if (search.empty() || taken.empty()) return "";
  return concat(
      " Of ", search.size(),
      " settings, of which the one above is the first and the others were drawn at random, each "
      "split took the best on its validation part: ",
      search_text(taken), ". All that were tried: ", quoted_list(search), ".");
}

std::string model_paragraph(const Json& config, const Json& result) {
  std::string text =
      concat("## Model and training\n\nModel ", quoted(result.at("models").at(0).at("name")), ": ",
             settings(config.at("model")), ".\n\nTraining: ", settings(config.at("fit")), ".");
  if (config.at("name") != kSummaryModel)
    text +=
        " The optimizer is AdamW (Loshchilov and Hutter, 2019); the epoch that was best on the "
        "validation part was kept.";
  text += choice_sentence(result);
  if (config.contains("tune") && config["tune"].is_object())
    text += concat(" The end of the backbone was trained with it: ", settings(config["tune"]), ".");
  text += search_sentence(config, result);
  if (const Json others = config.value("compare", Json::array()); !others.empty())
    text += concat(" Controls on the same splits: ", quoted_list(others), ".");
  return text + "\n";
}

// Folds that lack a class have no AUROC.
std::string missing_folds_sentence(const Json& result) {
  for (const auto& [key, metric] : main_model_of(result).at("metrics").items()) {
    const Json folds = metric.value("folds", Json::object());
    const std::size_t with_figure = folds.value("with_figure", std::size_t{0}),
                      all = folds.value("all", std::size_t{0});
    if (with_figure == all) continue;
    const std::string others =
        metric.contains("mean_over_classes_present")
            ? concat("; over all folds as the mean of the classes that each holds it is ",
                     fixed(metric["mean_over_classes_present"].get<double>(), 3))
            : "";
    return concat(" The ", metric_named(key)->title, " is the mean over ", with_figure, " of ",
                  plural(all, "fold"), " since the others do not hold what it needs", others, ".");
  }
  return "";
}

std::string statistics_paragraph(const Json& config, const Json& result) {
  const Json& interval = result.at("interval");
  std::string text =
      concat("## Evaluation\n\nSplit: ", json_text(result.at("split")), ", seed ",
             config.at("seed").dump(), "; no patient is on both sides of a split. ",
             "Fits of a split whose predictions are averaged: ", config.at("seeds").dump(), ". ");
  const Json folds = result.value("folds", Json::array());
  const auto chose = [&](const char* what) {
    return !folds.empty() && folds.front().contains(what) && folds.front()[what].is_number();
  };
  if (chose("temperature") && has_trained_fits(config, result))
    text += "Probabilities were calibrated on the validation part (Guo et al., 2017). ";
  if (chose("threshold")) text += "The threshold of decisions was chosen there, too. ";
  text += concat("Intervals are of ", exact(100 * interval.at("level").get<double>()),
                 " %: ", json_text(interval.at("method")), ".");
  if (!config.value("compare", Json::array()).empty()) {
    text +=
        " Differences between models have intervals of their own, paired by patient: Student's, of "
        "the jackknife's variance of the difference";
    if (config.at("seeds") > 1 || config.at("repeats") > 1)
      text += " and of the spread between fits beyond what patients explain";
    text += ".";
  }
  return text + missing_folds_sentence(result);
}

std::string findings(const Json& result) {
  std::string text = concat("Findings on ", quoted(result.at("target")), ":\n\n");
  for (const Json& line : result.at("verdict"))
    text += concat("- ", printable(json_text(line)), "\n");
  return text + "\n";
}

std::string versions_paragraph(const Json& config) {
  const auto of = [&](const char* key) { return json_text(config.value(key, Json("unknown"))); };
  return concat("## Software and data\n\nColdframe ", of("coldframe"), ", LibTorch ", of("torch"),
                ". Digests: features' recipe `", of("feature_digest"), "`, cache's recipe `",
                of("cache_digest"), "`, data `", of("data_digest"),
                "`.\n\n`coldframe train --config options.ini --out RUN` repeats the run, "
                "where options.ini lies next to this file.\n");
}

constexpr const char* kReferences =
    "## References\n\n"
    "- Dosovitskiy A et al. An image is worth 16x16 words. ICLR 2021.\n"
    "- Efron B, Tibshirani RJ. An introduction to the bootstrap. Chapman & Hall, 1993 "
    "(jackknife).\n"
    "- Guo C et al. On calibration of modern neural networks. ICML 2017.\n"
    "- Loshchilov I, Hutter F. Decoupled weight decay regularization. ICLR 2019.\n";

}  // namespace

std::string methods_text(const Json& config, const Json& summary) {
  const Json results = results_of(summary);
  std::string found;
  for (const Json& result : results) found += findings(result);
  return concat(
      "# Methods\n\nWritten by Coldframe from config.json and summary.json. Read it "
      "against your study before you use it.\n\n",
      data_paragraph(config, results.front()), "\n", features_paragraph(config), "\n",
      model_paragraph(config, results.front()), "\n", statistics_paragraph(config, results.front()),
      "\n\n", found, versions_paragraph(config), "\n", kReferences);
}

}  // namespace coldframe::temporal
