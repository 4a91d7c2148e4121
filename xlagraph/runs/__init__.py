"""Why a whole run compiled as often as it did: warm-up, reasons over all graphs, the verdict."""
