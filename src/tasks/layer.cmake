# The page that `extract --report` writes.
set(report ${CMAKE_SOURCE_DIR}/src/tasks/extract/extract_report)
banyan_embed(banyan_tasks kReportFiles ${report}.html ${report}.css ${report}.js)
# Nothing here is hot: tokenizing, retrieval and the engine are elsewhere. It was a third of a build's
# processor time.
target_compile_options(banyan_tasks PRIVATE $<$<CONFIG:Release>:-O1>)
# As many files again in one compilation as elsewhere: half of the time goes into headers that all include.
set_target_properties(banyan_tasks PROPERTIES UNITY_BUILD_BATCH_SIZE 32)
