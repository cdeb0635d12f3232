#include "train_temporal/commands/run_list.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/json.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {
namespace fs = std::filesystem;
namespace {

const CommandHelp kHelp{"coldframe train --list RUNS… [--json]",
                        "Lists runs: give run folders, or folders that hold runs. The figure is "
                        "the first that a run reports, the mean over folds with its interval.",
                        "coldframe train --list runs"};

bool is_run(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / "config.json", ignored);
}

std::string utc(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(system));
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts)};
}

// The latest change of a file in the folder or in its state.
std::string latest_change(const fs::path& run) {
  fs::file_time_type latest = fs::last_write_time(run / "config.json");
  for (const fs::path& folder : {run, run / "state"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      std::error_code gone;
      const auto time = fs::last_write_time(entry.path(), gone);
      if (!gone) latest = std::max(latest, time);
    }
  }
  return utc(latest);
}

std::size_t count_records(const fs::path& run) {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / "state", error)) {
    count += entry.path().extension() == ".record";
  }
  return count;
}

// A short description of the backbone, with the first digits of the weights' digest.
std::string backbone_of(const Json& config) {
  const auto part = [](const Json& json, const char* key) {
    return json.is_object() ? json.value(key, Json::object()) : Json::object();
  };
  const Json features = part(part(config, "recipe"), "features");
  const Json backbone = part(features, "backbone"), vit = part(backbone, "architecture");
  std::vector<std::string> words;
  if (vit.contains("width") && vit.contains("depth") && vit.contains("patch")) {
    words.push_back(concat("ViT ", vit["width"], " × ", vit["depth"], " /", vit["patch"]));
  }
  for (const char* key : {"kind", "pooling"}) {
    if (backbone.contains(key) && backbone[key].is_string()) words.push_back(backbone[key]);
  }
  const Json& digest = backbone.contains("sha256") ? backbone : part(features, "weights");
  if (digest.is_object() && digest.contains("sha256") && digest["sha256"].is_string()) {
    words.push_back(digest["sha256"].get<std::string>().substr(0, 8));
  }
  return join(words, ", ");
}

double number(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : NAN;
}

void read_summary(const Json& summary, ListedRun& run) {
  const Json& first = summary.contains("targets") ? summary["targets"].at(0) : summary;
  const Json& metrics = first.at("models").at(0).at("metrics");
  if (!metrics.empty()) {
    run.metric = metrics.begin().key();
    const Json& first_metric = metrics.begin().value();
    const Json& mean = first_metric.at(first_metric.at("primary").get<std::string>());
    run.value = number(mean, "value");
    run.low = number(mean, "low");
    run.high = number(mean, "high");
    run.folds_with_figure =
        first_metric.value("folds", Json::object()).value("with_figure", std::size_t{0});
  }
  run.peak_bytes = number(summary.value("memory", Json::object()), "tensors_peak_bytes");
  run.seconds = number(summary, "seconds");
  const Json& main = first.at("models").at(0);
  const std::string taken = fits_text(main);
  run.model = main.at("name");
  if (!taken.empty()) run.model += concat(" (", taken, ")");
}

void read_config(const Json& config, ListedRun& run) {
  const Json& target = config.at("target");
  run.target = shown(target);
  run.model = config.at("name");
  run.folds = config.at("folds");
  run.seeds = config.at("seeds");
  run.backbone = backbone_of(config);
  run.fits = config.at("fits");
}

ListedRun read_run(const fs::path& folder) {
  ListedRun run;
  run.folder = folder;
  run.value = run.low = run.high = run.seconds = run.peak_bytes = NAN;
  try {
    const Json config = read_json_file(folder / "config.json");
    read_config(config, run);
    run.finished = fs::exists(folder / "summary.json") && folder.extension() != kUnfinished;
    run.fits_done = run.finished ? run.fits : count_records(folder);
    if (run.finished) read_summary(read_json_file(folder / "summary.json"), run);
    const auto compared = config.at("compare").size();
    if (compared > 0) run.model += concat(" + ", compared);
    run.date = latest_change(folder);
  } catch (const Error& error) {
    run.problem = error.what();
  } catch (const Json::exception& error) {
    run.problem = concat("not a run of this version: ", error.what());
  } catch (const fs::filesystem_error& error) {
    run.problem = error.code().message();
  }
  return run;
}

std::string name_of(const ListedRun& run) {
  fs::path folder = run.folder;
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.extension() == kUnfinished ? folder.stem().string() : folder.filename().string();
}

std::string figure(const ListedRun& run) {
  if (!run.problem.empty()) return "cannot be read";
  if (!run.finished) return concat("unfinished: ", run.fits_done, " of ", run.fits, " fits");
  if (run.metric.empty()) return "-";
  if (!std::isfinite(run.value)) return concat(run.metric, " undefined");
  std::string text = concat(run.metric, " ", fixed(run.value, 3));
  if (std::isfinite(run.low))
    text += concat(" [", fixed(run.low, 3), ", ", fixed(run.high, 3), "]");
  return text;
}

std::string folds_text(const ListedRun& run) {
  const bool all = run.folds_with_figure == 0 || run.folds_with_figure == run.folds;
  return concat(all ? "" : concat(run.folds_with_figure, " of "), run.folds);
}

std::vector<std::string> row_of(const ListedRun& run) {
  if (!run.problem.empty()) {
    return {name_of(run), figure(run), "-", "-", "-", "-", "-", "-", "-"};
  }
  const auto or_dash = [](double value, auto text) {
    return std::isfinite(value) ? text(value) : std::string("-");
  };
  return {name_of(run),
          figure(run),
          run.target,
          run.model,
          concat(folds_text(run), " × ", run.seeds),
          or_dash(run.peak_bytes,
                  [](double bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }),
          or_dash(run.seconds, [](double seconds) { return human_duration(seconds); }),
          run.date,
          run.backbone.empty() ? "-" : run.backbone};
}

}  // namespace

std::vector<ListedRun> find_runs(const std::vector<fs::path>& paths) {
  std::vector<ListedRun> runs;
  for (const fs::path& path : paths) {
    std::vector<fs::path> folders;
    fs::path unfinished = path.has_filename() ? path : path.parent_path();
    unfinished += kUnfinished;
    if (is_run(path)) folders.push_back(path);
    if (folders.empty() && is_run(unfinished)) folders.push_back(unfinished);
    std::error_code error;
    if (folders.empty()) {
      for (const auto& entry : fs::directory_iterator(path, error)) {
        if (is_run(entry.path())) folders.push_back(entry.path());
      }
    }
    if (error || folders.empty()) {
      throw ConfigError(concat("--list '", path.string(), "' ",
                               error ? error.message() : "holds no run of `coldframe train`",
                               "; give run folders or folders that hold some"));
    }
    std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
      return natural_less(a.filename().string(), b.filename().string());
    });
    for (const fs::path& folder : folders) runs.push_back(read_run(folder));
  }
  return runs;
}

std::string runs_table(const std::vector<ListedRun>& runs) {
  TextRows rows = {{"RUN", "RESULT", "TARGET", "MODEL", "FOLDS × SEEDS", "TENSORS", "TIME",
                    "DATE (UTC)", "FEATURES"}};
  for (const ListedRun& run : runs) rows.push_back(row_of(run));
  return table_text(rows);
}

std::string runs_json(const std::vector<ListedRun>& runs) {
  Json list = Json::array();
  for (const ListedRun& run : runs) {
    if (!run.problem.empty()) {
      list.push_back({{"folder", run.folder.string()}, {"problem", run.problem}});
      continue;
    }
    Json json = {{"name", name_of(run)},     {"folder", run.folder.string()},
                 {"finished", run.finished}, {"fits", {{"done", run.fits_done}, {"all", run.fits}}},
                 {"target", run.target},     {"model", run.model},
                 {"folds", run.folds},       {"seeds", run.seeds}};
    if (run.finished && !run.metric.empty()) {
      json["metric"] = {{"name", run.metric},
                        {"value", json_number(run.value)},
                        {"low", json_number(run.low)},
                        {"high", json_number(run.high)}};
      if (run.folds_with_figure > 0) json["metric"]["folds"] = run.folds_with_figure;
    }
    json["tensors_peak_bytes"] = json_number(run.peak_bytes);
    json["seconds"] = json_number(run.seconds);
    json["date"] = run.date;
    json["features"] = run.backbone;
    list.push_back(std::move(json));
  }
  return list.dump(2) + "\n";
}

bool asks_for_list(const std::vector<std::string>& arguments) {
  return std::ranges::any_of(arguments, [](const std::string& word) {
    return word == "--list" || word.starts_with("--list=");
  });
}

int list_runs(const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  std::vector<std::string> words;
  bool json = false;
  po::options_description description("Options");
  description.add_options()("list", po::value(&words)->multitoken()->value_name("RUNS"),
                            "run folders, or folders that hold runs")(
      "json", po::bool_switch(&json), "print the list as JSON");
  const bool help = std::ranges::any_of(
      arguments, [](const std::string& word) { return word == "--help" || word == "-h"; });
  const auto& given = help ? std::vector<std::string>{"--help"} : arguments;
  if (!parse_command_line(kHelp, description, given)) return 0;
  const auto runs = find_runs({words.begin(), words.end()});
  std::cout << (json ? runs_json(runs) : runs_table(runs));
  for (const ListedRun& run : runs) {
    if (run.problem.empty()) continue;
    log_warning(concat("'", run.folder.string(), "': ", run.problem));
  }
  const bool whole = std::ranges::all_of(runs, [](const auto& run) { return run.problem.empty(); });
  return static_cast<int>(whole ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace coldframe::temporal
