#include "train_temporal/commands/watch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/atomic_file.h"
#include "common/files/csv.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "train_temporal/commands/applied.h"
#include "train_temporal/run/apply/prediction_table.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 200;  // bytes; a file's name has room for 255

// The folder of results, and what is done in it.
class Results {
 public:
  Results(const fs::path& out, const std::string& bundle) : out_(out) {
    create_folders_durably(out_ / "results");
    lock();
    require_bundle(bundle);
    for (const auto& entry : fs::directory_iterator(out_ / "results")) {
      if (entry.path().extension() != ".json") continue;
      const Json result = read_json_file(entry.path());
      results_[result.at("input").get<std::string>()] = result;
    }
    write_table();
  }
  ~Results() { ::close(lock_); }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  bool has(const std::string& input) const { return results_.contains(input); }
  std::size_t size() const { return results_.size(); }
  bool failed() const {
    return std::ranges::any_of(results_,
                               [](const auto& item) { return !item.second["failures"].empty(); });
  }

  void add(const std::string& input, const Json& result) {
    const std::string name = input.size() > kLongestName ? sha256_hex(input) : input;
    write_file_atomically(out_ / "results" / (name + ".json"), result.dump(2) + "\n");
    results_[input] = result;
    write_table();
  }

 private:
  void lock() {
    lock_ = ::open(out_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
    if (lock_ >= 0) ::close(lock_);
    throw ConfigError(
        concat("--out '", out_.string(),
               "': another process watches for it; stop that one, or choose another"));
  }

  void require_bundle(const std::string& bundle) const {
    const fs::path file = out_ / "watch.json";
    const Json now = {{"bundle", bundle}};
    if (!fs::exists(file)) return write_file_atomically(file, now.dump(2) + "\n");
    if (read_json_file(file) == now) return;
    throw ConfigError(
        concat("--out '", out_.string(), "' has results of another bundle; choose another one"));
  }

  void write_table() const {
    std::string table;
    for (const auto& [input, result] : results_)
      for (const Json& row : result.at("rows")) {
        if (table.empty()) table = row_of("input", result.at("header"));
        table += row_of(input, row);
      }
    write_file_atomically(out_ / "predictions.csv", table);
  }

  static std::string row_of(const std::string& input, const Json& fields) {
    std::vector<std::string> row = {input};
    for (const Json& field : fields) row.push_back(field.get<std::string>());
    return csv_row(row);
  }

  fs::path out_;
  int lock_ = -1;
  std::map<std::string, Json> results_;
};

bool is_being_written(const std::string& name) {
  return name.starts_with('.') || name.ends_with(".part") || name.ends_with(".partial") ||
         name.ends_with(".tmp");
}

// What is seen of an arrival: it changes when a file does.
struct Look {
  std::string stamp;
  fs::file_time_type newest = fs::file_time_type::min();
  bool unfinished = false;
};

void look_at(const fs::path& path, Look& look) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return;
  look.newest = std::max(look.newest, time);
  look.unfinished |= is_being_written(path.filename().string());
  if (fs::is_regular_file(path, error))
    look.stamp += concat(path.string(), ' ', fs::file_size(path, error), ' ',
                         time.time_since_epoch().count(), '\n');
}

Look look_at(const fs::path& arrival) {
  Look look;
  look_at(arrival, look);
  std::error_code error;
  if (!fs::is_directory(arrival, error)) return look;
  std::vector<fs::path> files;
  // A receiver may take files away meanwhile.
  for (fs::recursive_directory_iterator at(arrival, error), end; !error && at != end;
       at.increment(error))
    files.push_back(at->path());
  std::ranges::sort(files);
  for (const fs::path& file : files) look_at(file, look);
  return look;
}

class Arrivals {
 public:
  explicit Arrivals(const ApplyOptions& options) : options_(options) {}

  // Names that are complete and have no result, in order.
  std::vector<std::string> complete(const Results& results) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options_.watch)) {
      const std::string name = entry.path().filename().string();
      if (is_being_written(name) || is_marker(name) || results.has(name)) continue;
      if (is_complete(entry.path())) names.push_back(name);
    }
    std::ranges::sort(names, natural_less);
    return names;
  }

 private:
  bool is_marker(const std::string& name) const {
    return !options_.marker.empty() && name.ends_with("." + options_.marker);
  }

  bool is_complete(const fs::path& arrival) {
    if (!options_.marker.empty())
      return fs::exists(arrival / options_.marker) ||
             fs::exists(arrival.string() + "." + options_.marker);
    const Look look = look_at(arrival);
    std::string& before = seen_[arrival.filename().string()];
    const bool same = before == look.stamp;
    before = look.stamp;
    const std::chrono::duration<double> age = fs::file_time_type::clock::now() - look.newest;
    return same && !look.unfinished && !look.stamp.empty() && age.count() >= options_.quiet_s;
  }

  const ApplyOptions& options_;
  std::map<std::string, std::string> seen_;  // stamps at the last look
};

Json result_of(const std::string& input, Applied& applied, const fs::path& path) {
  Json result = {{"input", input}, {"header", Json::array()}, {"rows", Json::array()}};
  try {
    const cache::CacheReader cache(applied.features_of(path));
    Ensemble& ensemble = applied.ensemble();
    ensemble.require_same_features(cache, path);
    const auto exams = exams_with_frames(cache);
    const auto scores = ensemble.scores(cache, exams, applied.device());
    const auto unlike = judge_features(applied.study(), cache, exams);
    const CsvTable table =
        parse_csv(prediction_table(cache, exams, ensemble, scores, unlike), path.string());
    result["header"] = table.header;
    for (const auto& row : table.rows) result["rows"].push_back(row);
    result["failures"] = failures_json(cache);
  } catch (const DataError& error) {
    result["failures"] = {{{"exam", ""}, {"source", ""}, {"reason", error.what()}}};
    log_warning(concat("'", input, "' cannot be read: ", error.what()));
  }
  return result;
}

void pause() {
  const timespec second{1, 0};
  ::nanosleep(&second, nullptr);  // a signal ends it
}

}  // namespace

int watch_folder(const ApplyOptions& options) {
  if (!fs::is_directory(options.watch))
    throw ConfigError(concat("--watch '", options.watch.string(), "': there is no such folder"));
  Applied applied(options);
  Results results(options.out, applied.bundle().digest());
  Arrivals arrivals(options);
  if (options.once) arrivals.complete(results);  // the first of the two looks
  log_info(concat("watching '", options.watch.string(), "': ", plural(results.size(), "arrival"),
                  " predicted before"));
  while (!stop_requested()) {
    const auto names = arrivals.complete(results);
    for (const std::string& name : names) {
      if (stop_requested()) break;
      results.add(name, result_of(name, applied, options.watch / name));
      log_info(concat("'", name, "' is predicted"));
    }
    if (options.once && names.empty()) break;
    if (names.empty()) pause();
  }
  if (stop_requested()) throw Interrupted("stopped; the same command goes on");
  std::cout << concat(plural(results.size(), "arrival"),
                      " predicted: ", (options.out / "predictions.csv").string(), "\n");
  return static_cast<int>(results.failed() ? ExitCode::kDoneWithFindings : ExitCode::kDone);
}

}  // namespace coldframe::temporal
