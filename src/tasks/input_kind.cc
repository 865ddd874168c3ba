#include "tasks/input_kind.h"

#include <array>
#include <cctype>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

struct Ending {
  std::string_view text;
  InputKind kind;
};

constexpr std::array kEndings = {
    Ending{".jsonl", InputKind::kJsonLines}, Ending{".ndjson", InputKind::kJsonLines},
    Ending{".json", InputKind::kJsonLines},  Ending{".csv", InputKind::kCsv},
    Ending{".tsv", InputKind::kTsv},         Ending{".tab", InputKind::kTsv},
    Ending{".txt", InputKind::kText},        Ending{".text", InputKind::kText},
    Ending{".md", InputKind::kText},         Ending{".markdown", InputKind::kText},
    Ending{".rst", InputKind::kText},        Ending{".tex", InputKind::kText},
    Ending{".log", InputKind::kText},        Ending{".eml", InputKind::kText},
    Ending{".html", InputKind::kHtml},       Ending{".htm", InputKind::kHtml},
    Ending{".xhtml", InputKind::kHtml},      Ending{".pdf", InputKind::kPdf},
};

struct Foreign {
  std::string_view ending, advice;
};

constexpr std::array kForeign = {
    Foreign{".parquet",
            "Parquet; convert it: python3 -c \"import pandas, sys; "
            "pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient='records', "
            "lines=True)\" in.parquet out.jsonl"},
    Foreign{".feather", "Feather; convert it with pandas or pyarrow to .jsonl"},
    Foreign{".arrow", "Arrow; convert it with pandas or pyarrow to .jsonl"},
    Foreign{".bz2", "packed by bzip2; unpack it with bunzip2, or pack it with zstd"},
    Foreign{".xz", "packed by xz; unpack it with unxz, or pack it with zstd"},
    Foreign{".lz4", "packed by lz4; unpack it with unlz4, or pack it with zstd"},
    Foreign{".zip", "a ZIP archive; unpack it with unzip and give the folder"},
    Foreign{".7z", "a 7-Zip archive; unpack it and give the folder"},
    Foreign{".tar", "a tar archive; unpack it with tar xf and give the folder"},
    Foreign{".tgz", "a tar archive; unpack it with tar xf and give the folder"},
    Foreign{".xlsx", "a spreadsheet; save it as CSV"},
    Foreign{".xls", "a spreadsheet; save it as CSV"},
    Foreign{".ods", "a spreadsheet; save it as CSV"},
    Foreign{".docx", "a Word document; convert it: pandoc -t plain in.docx -o out.txt"},
    Foreign{".doc", "a Word document; convert it: libreoffice --headless --convert-to txt in.doc"},
    Foreign{".odt", "an OpenDocument text; convert it: pandoc -t plain in.odt -o out.txt"},
    Foreign{".rtf", "a rich text; convert it: pandoc -t plain in.rtf -o out.txt"},
    Foreign{".epub", "an e-book; convert it: pandoc -t plain in.epub -o out.txt"},
};

std::string LowerName(std::string_view path) {
  std::string name(path.substr(path.rfind('/') + 1));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

std::optional<InputKind> InputKindNamed(std::string_view word) {
  using Pair = std::pair<std::string_view, InputKind>;
  for (const auto& [name, kind] :
       {Pair("jsonl", InputKind::kJsonLines), Pair("csv", InputKind::kCsv),
        Pair("tsv", InputKind::kTsv), Pair("text", InputKind::kText),
        Pair("html", InputKind::kHtml), Pair("pdf", InputKind::kPdf)}) {
    if (word == name) return kind;
  }
  return std::nullopt;
}

std::optional<InputKind> InputKindOfFile(std::string_view path) {
  std::string name = LowerName(path);
  for (const std::string_view packing : {".gz", ".zst"}) {
    if (name.ends_with(packing)) name.resize(name.size() - packing.size());
  }
  for (const Ending& ending : kEndings) {
    if (name.ends_with(ending.text)) return ending.kind;
  }
  return std::nullopt;
}

InputKind InputKindOfBytes(std::string_view head) {
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  if (head.starts_with("%PDF-")) return InputKind::kPdf;
  const size_t first = head.find_first_not_of(" \t\r\n");
  const bool brace = first != std::string_view::npos && head[first] == '{';
  return brace ? InputKind::kJsonLines : InputKind::kText;
}

bool IsDocument(InputKind kind) {
  return kind == InputKind::kText || kind == InputKind::kHtml || kind == InputKind::kPdf;
}

void RefuseForeignFormat(const std::string& path) {
  const std::string name = LowerName(path);
  for (const Foreign& foreign : kForeign) {
    if (name.ends_with(foreign.ending)) {
      Throw(ErrorKind::kUsage, "{}: {}", path, foreign.advice);
    }
  }
}

}  // namespace banyan
