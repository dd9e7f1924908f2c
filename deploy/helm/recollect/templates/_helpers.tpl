{{- define "recollect.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "recollect.labels" -}}
app.kubernetes.io/name: recollect
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "recollect.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "recollect.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "recollect.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{- define "recollect.settings" -}}
- name: RECOLLECT_BASE_URL
  value: {{ .Values.baseUrl | quote }}
- name: RECOLLECT_TRUSTED_PROXIES
  value: {{ join ", " .Values.trustedProxies | quote }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
- name: RECOLLECT_HOME
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.secret }}
      key: {{ .Values.database.urlKey }}
{{- end }}

{{- define "recollect.settingsFrom" -}}
{{- range $secret := .Values.settingsSecrets }}
- secretRef:
    name: {{ $secret }}
{{- end }}
{{- end }}

{{- define "recollect.mounts" -}}
- name: data
  mountPath: /data
- name: temporary
  mountPath: /tmp
{{- end }}

{{- define "recollect.volumes" -}}
- name: data
  emptyDir: {}
- name: temporary
  emptyDir: {}
{{- end }}
