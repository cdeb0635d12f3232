#include "train_temporal/run/methods.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string_view>

#include "common/text/text.h"
#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/report/report.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

namespace {

// A name that comes from data.
std::string quoted(const Json& name) {
  std::string text = printable(shown(name));
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
    std::string text = shown(value);
    if (value.is_array()) {
      std::vector<std::string> parts;
      for (const Json& part : value) parts.push_back(shown(part));
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
    text += concat("- Target ", quoted(target.at("name")), ", ", shown(target.at("task")),
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

// What a backbone saw at a time.
std::string input_of(const Json& features) {
  if (features.value("preprocessing", Json::object()).contains("block")) return "block of a volume";
  return features.contains("clip") ? "window of frames" : "frame";
}

std::string backbone_sentence(const Json& config) {
  const Json& features = config.at("recipe").at("features");
  if (!features.contains("backbone"))
    return concat("The features were made elsewhere, or are those of several streams: ",
                  settings(features), ".");
  const Json& backbone = features["backbone"];
  std::string text =
      concat("A frozen backbone embedded each ", input_of(features), " once. It is ");
  const std::string kind = shown(backbone.value("kind", Json("")));
  if (const Json shape = backbone.value("architecture", Json()); shape.is_object()) {
    text += concat("a vision transformer (Dosovitskiy et al., 2021) with ",
                   shown(shape.value("depth", Json())), " blocks, width ",
                   shown(shape.value("width", Json())), " and patches of ",
                   shown(shape.value("patch", Json())), " pixels");
  } else {
    text += "a compiled module";
  }
  if (backbone.contains("sha256"))
    text += concat(", of the weights with SHA-256 `", shown(backbone["sha256"]), "`");
  if (const std::string license = config.value(cache::kWeightsLicense, ""); !license.empty())
    text += concat(" (licence: ", license, ")");
  if (kind == "random")
    text += concat(", with random weights (seed ", backbone["seed"].dump(), ")");
  if (backbone.contains("pooling")) text += concat(", pooling ", shown(backbone["pooling"]));
  return text + ".";
}

std::string features_paragraph(const Json& config) {
  const Json& recipe = config.at("recipe");
  const Json& features = recipe.at("features");
  std::string text = "## Features\n\n" + backbone_sentence(config);
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"preprocessing", "Pixels"}, {"clip", "Windows"}, {"reading", "Files"}};
  for (const auto& [part, title] : kParts)
    if (features.contains(part)) text += concat(" ", title, ": ", settings(features[part]), ".");
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

// The scales of a run's targets.
struct Scales {
  bool two = false, several = false, grades = false, numbers = false, times = false;
  bool pairs = false, many = false;  // of classes, also of grades
};

Scales scales_of(const Json& results) {
  Scales has;
  for (const Json& result : results) {
    const std::string task = shown(result.at("task"));
    const std::size_t classes = result.at("classes").size();
    has.pairs |= classes == 2;
    has.many |= classes > 2;
    has.two |= task == task_name(Task::kBinary);
    has.several |= task == task_name(Task::kMulticlass);
    has.grades |= task == task_name(Task::kOrdinal);
    has.numbers |= task == task_name(Task::kRegression);
    has.times |= task == task_name(Task::kCox);
  }
  return has;
}

// A sentence about each kind of target that the run has.
struct OfScale {
  bool applies;
  const char* says;
};
std::string sentences(std::initializer_list<OfScale> rows) {
  std::string text;
  for (const auto& [applies, says] : rows)
    if (applies) text += says;
  return text;
}

// Of linear models on summaries, as fit/ridge.h fits them.
std::string linear_models_sentence(const Scales& has) {
  return " Such a model sees one summary of each feature over the frames, its kind and penalty "
         "chosen by cross-validation of the training and validation parts by patient." +
         sentences(
             {{has.two || has.several,
               " Classes have linear discriminants (Fisher, 1936) with a ridge on their common "
               "covariance (Friedman, 1989), multiplied by what predicts best in that "
               "cross-validation."},
              {has.grades,
               " Grades have a ridge-penalised logistic regression for each step: whether an exam "
               "that reaches a grade lies above it."},
              {has.numbers, " Numbers have ridge regression (Hoerl and Kennard, 1970)."},
              {has.times, " Times have proportional hazards (Cox, 1972) with a ridge penalty."}});
}

std::string choice_sentence(const Json& result) {
  const std::string taken = fits_text(main_model_of(result));
  if (taken.empty()) return "";
  return concat(
      " Beside it each fit tried a linear model on summaries, and took this where it had found "
      "something and the other was not clearly better on the validation part. Fits by what they "
      "took: ",
      taken, ".");
}

bool has_linear_models(const Json& config, const Json& result) {
  const Json others = config.value("compare", Json::array());
  return config.at("name") == kSummaryModel || !fits_text(main_model_of(result)).empty() ||
         std::ranges::find(others, kSummaryModel) != others.end();
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

std::string model_paragraph(const Json& config, const Json& results) {
  const Json& result = results.front();
  std::string text =
      concat("## Model and training\n\nModel ", quoted(result.at("models").at(0).at("name")), ": ",
             settings(config.at("model")), ".\n\nTraining: ", settings(config.at("fit")), ".");
  if (config.at("name") != kSummaryModel)
    text +=
        " The optimizer is AdamW (Loshchilov and Hutter, 2019); the epoch that was best on the "
        "validation part was kept.";
  text += choice_sentence(result);
  if (config.contains("tune") && config["tune"].is_object())
    text += concat(" The end of the backbone was trained with it: ", settings(config["tune"]),
                   ". The model first learnt on cached features, and then went on at ",
                   shown(config.at(kTunedModelRate)), " times its learning rate.");
  text += search_sentence(config, result);
  if (const Json others = config.value("compare", Json::array()); !others.empty())
    text += concat(" Controls on the same splits: ", quoted_list(others), ".");
  if (has_linear_models(config, result)) {
    if (fits_text(main_model_of(result)).empty())
      text += concat(" `", kSummaryModel, "` is a linear model on summaries.");
    text += linear_models_sentence(scales_of(results));
  }
  return text + "\n";
}

bool is_over_folds(const Json& metric) {
  return metric.at("per_fold").size() > 1 && metric.at("primary") == "mean_over_folds";
}

// How classes are decided for, and what their figures are means of.
std::string class_conventions(const Scales& has, const Json& results) {
  Json given;
  for (const Json& result : results)
    if (result.contains("asked") && given.is_null())
      given = result["asked"].value("threshold", Json());
  std::string text;
  if (has.two)
    text = given.is_null() ? " An exam is decided to be positive from that probability on at which "
                             "sensitivity + specificity is greatest in the validation part "
                             "(Youden, 1950)."
                           : concat(" An exam is decided to be positive from a probability of ",
                                    shown(given), " on, which was given.");
  text += sentences(
      {{has.several, " The decision of several classes is the most probable one."},
       {has.grades, " The decision of grades is the median of their predicted distribution."},
       {has.several,
        " The AUROC, the AUPRC (average precision) and F1 of several classes are macro figures: "
        "unweighted means over the classes, each against the rest."},
       {has.grades && has.many, " F1 of grades is macro: the unweighted mean over grades."},
       {has.many, " Balanced accuracy is macro recall, accuracy is micro recall."},
       {has.two,
        " The AUPRC of two classes is the average precision of the positive one, F1 is of it "
        "alone."},
       {has.two || has.several, " Kappa is Cohen's (1960), without weights."},
       {has.grades, " The kappa of grades has quadratic weights (Cohen, 1968)."},
       {has.pairs,
        " The Brier score of two classes is the mean squared error of the probability of the "
        "second."},
       {has.many,
        " The Brier score of several classes sums the squared errors over all classes (Brier, "
        "1950), and so lies between 0 and 2."}});
  return text + concat(" The expected calibration error (Guo et al., 2017) has ", kReliabilityBins,
                       " bins of equal width: ",
                       has.pairs ? "of two classes over the probability of the second" : "",
                       has.pairs && has.many ? ", " : "",
                       has.many ? "of several over the highest probability" : "", ".");
}

// Where the report shows how often they held.
std::string sets_sentence(const Json& results) {
  bool classes = false, numbers = false;
  for (const Json& result : results) {
    const Json sets = result.value("sets", Json());
    if (sets.is_null() || sets.contains("too_few")) continue;
    (result.at("classes").empty() ? numbers : classes) = true;
  }
  if (!classes && !numbers) return "";
  return " The sets of 90 % whose coverage the report shows are conformal (Vovk, Gammerman and "
         "Shafer, 2005): those of a fold rest on the held-out predictions of the other folds, by "
         "patient, of whom each counts once (Lee, Barber and Willett, 2023). Sets of new exams "
         "are compared with each held-out exam by the models that did not see it (" +
         std::string(classes ? "cross-conformal, Vovk, 2015" : "") +
         (classes && numbers ? "; " : "") + (numbers ? "of numbers CV+, Barber et al., 2021" : "") +
         ")." +
         sentences({{classes,
                     " A class suits by its probability (Sadinle, Lei and Wasserman, 2019), and "
                     "each is calibrated by itself (Vovk, 2012)."},
                    {numbers, " A number suits by its distance from the prediction."}});
}

std::string conventions(const Json& results) {
  const Scales has = scales_of(results);
  std::string text;
  std::vector<std::string> over_folds;
  for (const Json& result : results)
    for (const auto& [key, metric] : main_model_of(result).at("metrics").items())
      if (const std::string title(metric_named(key)->title);
          is_over_folds(metric) && std::ranges::find(over_folds, title) == over_folds.end())
        over_folds.push_back(title);
  if (!over_folds.empty())
    text += concat(" Means over folds: ", join(over_folds, ", "),
                   "; all other figures are of all folds together (Forman and Scholz, 2010).");
  if (has.pairs || has.many) text += class_conventions(has, results);
  return text + sets_sentence(results);
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
    return concat(" The ", title_of(metric_named(key), result.at("classes").size()),
                  " is the mean over ", with_figure, " of ", plural(all, "fold"),
                  " since the others do not hold what it needs", others, ".");
  }
  return "";
}

std::string statistics_paragraph(const Json& config, const Json& results) {
  const Json& result = results.front();
  const Json& interval = result.at("interval");
  std::string text =
      concat("## Evaluation\n\nSplit: ", shown(result.at("split")), ", seed ",
             config.at("seed").dump(), "; no patient is on both sides of a split. ",
             "Fits of a split whose predictions are averaged: ", config.at("seeds").dump(), ". ");
  const Json folds = result.value("folds", Json::array());
  const auto chose = [&](const char* what) {
    return !folds.empty() && folds.front().contains(what) && folds.front()[what].is_number();
  };
  const Scales has = scales_of(results);
  if (chose("temperature") && has_trained_fits(config, result) && (has.two || has.several))
    text += "Probabilities were calibrated on the validation part (Guo et al., 2017). ";
  text += concat("Intervals are of ", exact(100 * interval.at("level").get<double>()),
                 " %: ", shown(interval.at("method")), ".");
  if (!config.value("compare", Json::array()).empty()) {
    text +=
        " Differences between models have intervals of their own, paired by patient: Student's, of "
        "the jackknife's variance of the difference";
    if (config.at("seeds") > 1 || config.at("repeats") > 1)
      text +=
          " and of the spread between fits beyond what patients explain (two-way clustering, "
          "Cameron, Gelbach and Miller, 2011)";
    text += ".";
  }
  return text + missing_folds_sentence(result) + conventions(results);
}

// What predicts the label without images.
std::string confound_paragraph(const Json& result) {
  const Json confounds = result.value("confounds", Json::object());
  const std::string said = confounds.value("said", std::string());
  return said.empty() ? "" : printable(said) + "\n\n";
}

std::string findings(const Json& result) {
  std::string text = concat("Findings on ", quoted(result.at("target")), ":\n\n");
  for (const Json& line : result.at("verdict")) text += concat("- ", printable(shown(line)), "\n");
  return text + "\n";
}

std::string versions_paragraph(const Json& config) {
  const auto of = [&](const char* key) { return shown(config.value(key, Json("unknown"))); };
  return concat("## Software and data\n\nColdframe ", of("coldframe"), ", LibTorch ", of("torch"),
                ". Digests: features' recipe `", of("feature_digest"), "`, cache's recipe `",
                of("cache_digest"), "`, data `", of("data_digest"),
                "`.\n\n`coldframe train --config options.ini --out RUN` repeats the run, "
                "where options.ini lies next to this file.\n");
}

struct Reference {
  std::string_view cited;  // in the text
  const char* entry;
};
constexpr Reference kReferences[] = {
    {"Barber et al., 2021",
     "Barber RF, Candès EJ, Ramdas A, Tibshirani RJ. Predictive inference with the jackknife+. "
     "Annals of Statistics 49, 2021."},
    {"Brier, 1950",
     "Brier GW. Verification of forecasts expressed in terms of probability. Monthly Weather "
     "Review 78, 1950."},
    {"Cameron, Gelbach and Miller, 2011",
     "Cameron AC, Gelbach JB, Miller DL. Robust inference with multiway clustering. Journal of "
     "Business & Economic Statistics 29, 2011."},
    {"Cohen's (1960)",
     "Cohen J. A coefficient of agreement for nominal scales. Educational and Psychological "
     "Measurement 20, 1960."},
    {"Cohen, 1968", "Cohen J. Weighted kappa. Psychological Bulletin 70, 1968."},
    {"Cox, 1972",
     "Cox DR. Regression models and life-tables. Journal of the Royal Statistical Society B 34, "
     "1972."},
    {"Dosovitskiy et al., 2021", "Dosovitskiy A et al. An image is worth 16x16 words. ICLR 2021."},
    {"jackknife",
     "Efron B, Tibshirani RJ. An introduction to the bootstrap. Chapman & Hall, 1993 "
     "(jackknife)."},
    {"Fisher, 1936",
     "Fisher RA. The use of multiple measurements in taxonomic problems. Annals of Eugenics 7, "
     "1936."},
    {"Forman and Scholz, 2010",
     "Forman G, Scholz M. Apples-to-apples in cross-validation studies. ACM SIGKDD Explorations "
     "12, 2010."},
    {"Friedman, 1989",
     "Friedman JH. Regularized discriminant analysis. Journal of the American Statistical "
     "Association 84, 1989."},
    {"Guo et al., 2017", "Guo C et al. On calibration of modern neural networks. ICML 2017."},
    {"Hoerl and Kennard, 1970",
     "Hoerl AE, Kennard RW. Ridge regression: biased estimation for nonorthogonal problems. "
     "Technometrics 12, 1970."},
    {"Lee, Barber and Willett, 2023",
     "Lee Y, Barber RF, Willett R. Distribution-free inference with hierarchical data. "
     "arXiv:2306.06342, 2023."},
    {"Loshchilov and Hutter, 2019",
     "Loshchilov I, Hutter F. Decoupled weight decay regularization. ICLR 2019."},
    {"Sadinle, Lei and Wasserman, 2019",
     "Sadinle M, Lei J, Wasserman L. Least ambiguous set-valued classifiers with bounded error "
     "levels. Journal of the American Statistical Association 114, 2019."},
    {"Vovk, Gammerman and Shafer, 2005",
     "Vovk V, Gammerman A, Shafer G. Algorithmic learning in a random world. Springer, 2005."},
    {"Vovk, 2012", "Vovk V. Conditional validity of inductive conformal predictors. ACML 2012."},
    {"Vovk, 2015",
     "Vovk V. Cross-conformal predictors. Annals of Mathematics and Artificial Intelligence 74, "
     "2015."},
    {"Youden, 1950", "Youden WJ. Index for rating diagnostic tests. Cancer 3, 1950."},
};

// Those that the text cites.
std::string references_of(const std::string& text) {
  std::string list = "## References\n\n";
  for (const auto& [cited, entry] : kReferences)
    if (text.find(cited) != text.npos) list += concat("- ", entry, "\n");
  return list;
}

}  // namespace

Json readable(Json config) {
  static const std::map<std::string, std::string> kPrecisions = {
      {"Float", "float32"}, {"BFloat16", "bfloat16"}, {"Half", "float16"}};
  if (config.is_structured())
    for (Json& value : config) value = readable(std::move(value));
  if (config.is_number_float() && std::isfinite(config.get<double>()))
    return std::strtod(concat(config.get<double>()).c_str(), nullptr);
  if (config.is_object() && config.contains("precision") && config["precision"].is_string())
    if (const auto known = kPrecisions.find(config["precision"]); known != kPrecisions.end())
      config["precision"] = known->second;
  return config;
}

std::string methods_text(const Json& run, const Json& summary) {
  const Json config = readable(run);
  const Json results = results_of(summary);
  std::string found;
  for (const Json& result : results) found += findings(result) + confound_paragraph(result);
  const std::string text = concat(
      "# Methods\n\nWritten by Coldframe from config.json and summary.json. Read it "
      "against your study before you use it.\n\n",
      data_paragraph(config, results.front()), "\n", features_paragraph(config), "\n",
      model_paragraph(config, results), "\n", statistics_paragraph(config, results), "\n\n", found,
      versions_paragraph(config), "\n");
  return text + references_of(text);
}

}  // namespace coldframe::temporal
